// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// Classes replaces the device queue at both ends of a plain link by one queue for each class of
// service. Each end classifies the packets that it sends.
type Classes struct {
	Preset   string
	Rate     units.BitRate // on the wire, with 24 bytes of overhead a frame
	Ceilings map[string]units.BitRate
	FIFO     bool
}

type classesFile struct {
	yamlfile.Fields `yaml:"-"`
	Preset          string                      `yaml:"preset" enum:"weir,geant-1,geant-2,single" doc:"Weir's own classes if left out, those of tables 1 and 2 of GÉANT's experiments, or a single queue for comparison."`
	Rate            units.BitRate               `yaml:"rate,required" doc:"Rate of the link on the wire."`
	Ceilings        yamlfile.Map[units.BitRate] `yaml:"ceilings" doc:"The most that a class gets, by its name."`
	FIFO            bool                        `yaml:"fifo" doc:"First in, first out within each class, also where the kernel has fq_codel."`
}

func (b *builder) classes(l linkFile, path string) *Classes {
	f := l.Classes
	switch {
	case f == nil:
		return nil
	case !l.Plain:
		b.complain(l.At("classes"), "add plain: true, and emulate on the link behind it", "%s.classes: an emulated link has one queue", path)
		return nil
	case f.Flawed():
		return nil
	}
	out := &Classes{Preset: f.Preset, Rate: f.Rate, Ceilings: map[string]units.BitRate{}, FIFO: f.FIFO}
	if out.Preset == "" {
		out.Preset = "weir"
	}
	for _, c := range f.Ceilings {
		out.Ceilings[c.Key.Value] = c.Value
	}
	return out
}
