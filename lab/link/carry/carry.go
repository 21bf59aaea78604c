// SPDX-License-Identifier: Apache-2.0

// Package carry chooses the mechanism that carries a lab's links on this kernel, and says why.
//
// netem comes first where the kernel has it; otherwise the AF_XDP emulator. A scenario that the
// chosen one cannot carry goes to the other, unless a mechanism was asked for by name.
package carry

import (
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/internal/kernel/probe"
	"weir/internal/nearest"
	"weir/lab/link"
	"weir/lab/link/emulator"
	"weir/lab/link/netem"
)

// Names that --carrier takes.
const (
	Auto     = "auto"
	Netem    = "netem"
	Emulator = "emulator"
)

// Names returns all of them, for help texts.
func Names() []string { return []string{Auto, Netem, Emulator} }

// Choice is a carrier and the reason for it, in words for people and manifests.
type Choice struct {
	Carrier link.Carrier
	Reason  string
}

// Choose returns the carrier for the cables, which may be none yet. name is one of Names; "" is
// Auto. A mechanism that was asked for by name and cannot do it is an error that says what is
// missing. It needs root, to probe.
func Choose(name string, cables ...link.Cable) (Choice, error) {
	switch name {
	case "", Auto:
		return automatic(cables)
	case Netem:
		return named(netem.New(), usableNetem, cables)
	case Emulator:
		return named(emulator.New(emulator.Options{}), usableEmulator, cables)
	}
	return Choice{}, fault.New(fault.Usage, "use auto, netem or emulator", "there is no carrier %q%s", name, nearest.Hint(name, Names()))
}

// usableNetem probes netem and a hook that brings frames to it.
func usableNetem() error {
	if err := probe.Netem(); err != nil {
		return err
	}
	return probe.DeviceHook()
}

// usableEmulator probes AF_XDP, and the BPF program that brings frames to it.
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
	first, second := link.Carrier(netem.New()), link.Carrier(emulator.New(emulator.Options{}))
	why := usableNetem()
	if why == nil {
		if why = check(first, cables); why == nil {
			return Choice{Carrier: first, Reason: "the kernel has it"}, nil
		}
	}
	missing := usableEmulator()
	if missing == nil {
		if err := check(second, cables); err != nil { // nothing can: the emulator does all that the format can say
			return Choice{}, err
		}
		return Choice{Carrier: second, Reason: fmt.Sprintf("not netem: %v", why)}, nil
	}
	return Choice{}, fault.Wrap(fmt.Errorf("choose a link carrier: %w", errors.Join(why, missing)), fault.Testbed,
		"see weir doctor for what this kernel lacks")
}
