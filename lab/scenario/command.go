// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	"weir/lab/traffic"
)

// command reads the programs of a flow of kind command.
func (b *builder) command(f flowFile, path string) *traffic.Command {
	out := &traffic.Command{Run: strings.TrimSpace(f.Run), Server: strings.TrimSpace(f.Server), AtTo: f.RunsAt == "to"}
	if out.Run == "" {
		b.complain(f.At("run"), `add "run: PROGRAM ..."`, "%s: a flow of kind \"command\" needs a line to run", path)
	}
	if f.Port == nil {
		return out
	}
	out.Port = *f.Port
	switch {
	case out.Port < 1 || out.Port > 65535:
		b.complain(f.At("port"), tryRange(1, 65535), "%s.port: %d is outside 1 to 65535", path, out.Port)
	case out.Server == "":
		b.complain(f.At("port"), "add a server, or remove the port", "%s.port: there is no server that could listen on it", path)
	}
	return out
}

// aloneAtTheirEnd reports hosts that receive for more than one flow if one of them is a command.
func (b *builder) aloneAtTheirEnd(f phaseFile, path string, phase Phase) {
	for i, own := range phase.Flows {
		if own.Kind != traffic.Program {
			continue
		}
		at, name := f.Flows[i].At("to"), fmt.Sprintf("%s.flows[%d]", path, i)
		for j, other := range phase.Flows {
			if i != j && (other.From == own.To || other.To == own.To) {
				b.complain(at, "use another host that receives for this flow alone", "%s.to: %q takes part in flow %q too, so the bytes of the two could not be separated", name, own.To, other.Name)
			}
		}
		for _, stream := range f.Streams {
			if stream.From == own.To || stream.To == own.To {
				b.complain(at, "use another host that receives for this flow alone", "%s.to: %q takes part in stream %q too", name, own.To, stream.Name)
			}
		}
	}
}
