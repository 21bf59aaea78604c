// SPDX-License-Identifier: Apache-2.0

// Package carry chooses the mechanism that carries a lab's links on this kernel, and gives the
// reason.
//
// It prefers departure times in fq, then netem, then the AF_XDP emulator: the first that the kernel
// has and that supports the scenario. A mechanism requested by name is never replaced by another.
package carry

import (
	"errors"
	"fmt"
	"strings"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/kernel/probe"
	"weir/lab/link"
	"weir/lab/link/edt"
	"weir/lab/link/emulator"
	"weir/lab/link/netem"
)

// Values of --carrier.
const (
	Auto     = "auto"
	EDT      = "edt"
	Netem    = "netem"
	Emulator = "emulator"
)

// Names returns all values, for help texts.
func Names() []string { return []string{Auto, EDT, Netem, Emulator} }

// Choice is a carrier with the reason for it, for reports and manifests.
type Choice struct {
	Carrier link.Carrier
	Reason  string
}

// Choose returns the carrier for the cables, which may be none yet. name is one of Names; "" is
// Auto. If a mechanism requested by name is not usable, the error names the missing feature.
// Probing needs root.
func Choose(name string, cables ...link.Cable) (Choice, error) {
	switch name {
	case "", Auto:
		return automatic(cables)
	}
	for _, m := range mechanisms() {
		if m.name == name {
			return named(m.carrier, m.usable, cables)
		}
	}
	return Choice{}, fault.New(fault.Usage, "use auto, edt, netem or emulator", "there is no carrier %q%s", name, nearest.Hint(name, Names()))
}

// mechanism is a carrier and the probe of its requirements.
type mechanism struct {
	name    string
	carrier link.Carrier
	usable  func() error
}

// mechanisms returns all mechanisms in order of preference.
func mechanisms() []mechanism {
	return []mechanism{
		{EDT, edt.New(), usableEDT},
		{Netem, netem.New(), usableNetem},
		{Emulator, emulator.New(emulator.Options{}), usableEmulator},
	}
}

// usableEDT probes fq and a hook that redirects frames to it.
func usableEDT() error {
	if err := probe.Qdisc("fq"); err != nil {
		return err
	}
	return probe.DeviceHook()
}

// usableNetem probes netem and a hook that redirects frames to it.
func usableNetem() error {
	if err := probe.Netem(); err != nil {
		return err
	}
	return probe.DeviceHook()
}

// usableEmulator probes AF_XDP and the emulator's BPF program.
func usableEmulator() error {
	if err := probe.XDPNative(); err != nil {
		return err
	}
	return probe.AFXDP()
}

func named(carrier link.Carrier, usable func() error, cables []link.Cable) (Choice, error) {
	if err := usable(); err != nil {
		return Choice{}, fault.Wrap(fmt.Errorf("use %s: %w", carrier.Mechanism(), err), fault.Testbed, "use --carrier auto")
	}
	if err := check(carrier, cables); err != nil {
		return Choice{}, fmt.Errorf("use %s: %w", carrier.Mechanism(), err)
	}
	return Choice{Carrier: carrier, Reason: "asked for"}, nil
}

func check(carrier link.Carrier, cables []link.Cable) error {
	for _, cable := range cables {
		if err := carrier.Check(cable); err != nil {
			return err
		}
	}
	return nil
}

func automatic(cables []link.Cable) (Choice, error) {
	var refused error // error of the last usable mechanism
	var without []string
	var missing []error
	for _, m := range mechanisms() {
		why := m.usable()
		if why == nil {
			if why = check(m.carrier, cables); why == nil {
				return Choice{Carrier: m.carrier, Reason: reason(without)}, nil
			}
			refused = why
		} else {
			missing = append(missing, why)
		}
		without = append(without, fmt.Sprintf("not %s: %v", m.carrier.Mechanism(), why))
	}
	if refused != nil {
		return Choice{}, refused
	}
	return Choice{}, fault.Wrap(fmt.Errorf("choose a link carrier: %w", errors.Join(missing...)), fault.Testbed,
		"see weir doctor for the missing kernel features")
}

// reason explains the choice of a carrier.
func reason(without []string) string {
	if len(without) == 0 {
		return "the kernel has it"
	}
	return strings.Join(without, "; ")
}
