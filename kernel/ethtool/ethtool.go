// SPDX-License-Identifier: Apache-2.0

// Package ethtool reads and sets a network device's offload features and reads its driver's
// counters.
//
// Features have the short names of ethtool(8) -K ("tso", "tx"), which may each stand for several
// kernel features, or the kernel's names ("tx-udp-segmentation"). Every call opens its socket
// inside the given namespace; nil is the namespace of the calling thread.
package ethtool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// groups maps ethtool(8)'s short names to patterns of the kernel's feature names.
var groups = map[string]string{
	"rx":     "rx-checksum",
	"tx":     "tx-checksum-*",
	"sg":     "tx-scatter-gather*",
	"tso":    "tx-tcp*-segmentation",
	"gso":    "tx-generic-segmentation",
	"gro":    "rx-gro",
	"lro":    "rx-lro",
	"rxvlan": "rx-vlan-hw-parse",
	"txvlan": "tx-vlan-hw-insert",
}

// SetFeatures switches features of dev on and off. It returns an error for an unknown feature and
// for a fixed feature in the wrong state. A name for several features sets the changeable ones. The
// kernel also switches off dependent features: without "tx" there is no "tso".
func SetFeatures(ns *netns.Namespace, dev string, want map[string]bool) error {
	err := asking(ns, func(a asker) error { return set(a, dev, want) })
	if err != nil {
		return fmt.Errorf("set features of %s: %w", dev, err)
	}
	return nil
}

func set(a asker, dev string, want map[string]bool) error {
	states, err := a.features(dev)
	if err != nil {
		return err
	}
	change := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		members := membersOf(name, states)
		if len(members) == 0 {
			return fmt.Errorf("the kernel has no feature %q", name)
		}
		changeable := 0
		for _, member := range members {
			if state := states[member]; state.Available && !state.NeverChanged {
				change[member] = want[name]
				changeable++
			}
		}
		if changeable == 0 && isOn(members, states) != want[name] {
			return fmt.Errorf("%s is fixed to %s", name, onOff(!want[name]))
		}
	}
	if len(change) == 0 {
		return nil
	}
	if err := a.change(dev, change); err != nil {
		return err
	}
	return verify(a, dev, change)
}

// verify reads the features back: the kernel may accept a request and keep a feature unchanged
// because of another one.
func verify(a asker, dev string, change map[string]bool) error {
	states, err := a.features(dev)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if states[name].Active != change[name] {
			return fmt.Errorf("the kernel leaves %s %s because of another feature", name, onOff(!change[name]))
		}
	}
	return nil
}

// Features returns the state of every feature of dev: the kernel's names, and the short names that
// stand for them.
func Features(ns *netns.Namespace, dev string) (map[string]bool, error) {
	features := map[string]bool{}
	err := asking(ns, func(a asker) error {
		states, err := a.features(dev)
		for name, state := range states {
			features[name] = state.Active
		}
		for name := range groups {
			if members := membersOf(name, states); len(members) > 0 {
				features[name] = isOn(members, states)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read features of %s: %w", dev, err)
	}
	return features, nil
}

// Kernel returns the state of every feature of devices in the calling thread's namespace by the
// kernel's names. It omits devices that are gone or have no features.
func Kernel(devs []string) (map[string]map[string]bool, error) {
	all := make(map[string]map[string]bool, len(devs))
	err := asking(nil, func(a asker) error {
		for _, dev := range devs {
			states, err := a.features(dev)
			if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
				continue
			}
			if err != nil {
				return fmt.Errorf("read features of %s: %w", dev, err)
			}
			all[dev] = make(map[string]bool, len(states))
			for name, state := range states {
				all[dev][name] = state.Active
			}
		}
		return nil
	})
	return all, err
}

// Stats returns the driver's counters of dev under the driver's names.
func Stats(ns *netns.Namespace, dev string) (map[string]uint64, error) {
	all, err := StatsOf(ns, []string{dev})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// StatsOf is [Stats] for several devices of a namespace, in the same order.
func StatsOf(ns *netns.Namespace, devs []string) (all []map[string]uint64, err error) {
	err = with(ns, func(tool *ethtool.Ethtool) error {
		for _, dev := range devs {
			stats, err := tool.Stats(dev)
			if err != nil {
				return fmt.Errorf("read counters of %s: %w", dev, err)
			}
			all = append(all, stats)
		}
		return nil
	})
	return all, err
}

func with(ns *netns.Namespace, f func(*ethtool.Ethtool) error) error {
	return ns.Do(func() error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		return f(tool)
	})
}

// membersOf returns the kernel's features that name stands for.
func membersOf(name string, states map[string]featureState) []string {
	pattern, grouped := groups[name]
	if !grouped {
		pattern = name
	}
	before, after, wild := strings.Cut(pattern, "*")
	var members []string
	for feature := range states {
		if feature == pattern || wild && len(feature) >= len(before)+len(after) &&
			strings.HasPrefix(feature, before) && strings.HasSuffix(feature, after) {
			members = append(members, feature)
		}
	}
	return members
}

func isOn(members []string, states map[string]featureState) bool {
	return slices.ContainsFunc(members, func(name string) bool { return states[name].Active })
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
