package lab

import (
	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/lab/link"
	"weir/lab/link/carry"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/iperf"
	"weir/lab/traffic/native"
)

// Carrier chooses what carries the scenario's links on this kernel: by one of carry.Names, or by probing.
func Carrier(name string, s *scenario.Scenario) (carry.Choice, error) {
	cells, err := s.Expand()
	if err != nil {
		return carry.Choice{}, err
	}
	var cables []link.Cable
	for i := range cells {
		cables = append(cables, run.Cables(&cells[i])...)
	}
	return carry.Choose(name, cables...)
}

// Generators are the names that [Generator] takes.
func Generators() []string { return []string{"weir", "iperf3"} }

// Generator returns the traffic generator of that name.
func Generator(name string) (traffic.Generator, error) {
	switch name {
	case "weir":
		return native.New(), nil
	case "iperf3":
		return iperf.Generator{}, nil
	}
	return nil, fault.New(fault.Usage, "use weir or iperf3", "there is no generator %q%s", name, nearest.Hint(name, Generators()))
}
