// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"image/color"
	"strings"
)

// dark maps colours to replacements on a dark background, with a contrast of at least 3, and 4.5
// for text.
var dark = map[color.NRGBA]string{
	paper: "#15191C", ink: "#E6EAED", soft: "#A3ADB5", grid: "#2C343A", rule: "#6C7780",
	palette[0]: "#4BA3E3", palette[1]: "#F5833A", palette[2]: "#26C79A", palette[3]: "#E3A6C6",
	palette[4]: "#F2B83C", palette[5]: "#A6DBFF", palette[6]: "#C6CCD1",
}

// sheet makes viewers with a dark scheme exchange the colours. A drawing has the colours as styles
// of its elements, so that viewers without style sheets show the light ones.
func sheet() string {
	var s strings.Builder
	s.WriteString("<style>@media screen and (prefers-color-scheme:dark){\n")
	for _, light := range append([]color.NRGBA{paper, ink, soft, grid, rule}, palette...) {
		for _, property := range []string{"fill", "stroke"} {
			fmt.Fprintf(&s, "[style*=\"%s:#%02X%02X%02X\"]{%s:%s!important}\n", property, light.R, light.G, light.B, property, dark[light])
		}
	}
	s.WriteString("}</style>\n")
	return s.String()
}
