// SPDX-License-Identifier: Apache-2.0

// Package netstate reads the configuration of a network namespace and detects changes of it.
//
// [Take] reads devices with their offloads and queues, addresses, routes, rules, neighbours,
// traffic control, packet filters, BPF programs on devices and the settings below /proc/sys/net.
// It compares whole kernel messages except counters and ages, so unknown attributes count too. A
// [Watch] subscribes to changes while it is open and so detects a change that is undone.
//
// Pitfalls:
//   - Promiscuous mode is ignored: a capture does not change the configuration.
//   - Neighbours count if they are permanent or resolved; those of multicast addresses are ignored.
//   - Programs attached to devices by TCX, attributes of queues below /sys, and rules of the old
//     iptables cause no event. TCX has a change counter; the other two are compared only before
//     and after.
package netstate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// State is a namespace's configuration: a map from keys ("device eth0: MTU", "setting
// net.ipv4.tcp_sack") to its value.
type State map[string]string

// Take reads the configuration of ns; nil is the calling thread's own namespace.
func Take(ns *netns.Namespace) (State, error) { return take(ns, nil, State{}) }

// Again reads the configuration of a namespace that was watched since the state before. It does not
// read settings and offloads again unless the watch reported a change: they are the largest part.
func Again(ns *netns.Namespace, before State, reports []Change) (State, error) {
	state, skip := State{}, map[string]bool{settingPrefix: true, offloadPrefix: before[reportsOffloads] != ""}
	for _, c := range reports {
		if strings.HasPrefix(c.What, "device ") || strings.HasPrefix(c.What, "so much") {
			skip = nil // settings and offloads come and go with devices
			break
		}
		if strings.HasPrefix(c.What, settingPrefix) || strings.HasPrefix(c.What, "a setting ") {
			skip[settingPrefix] = false
		}
		if strings.HasPrefix(c.What, "offload") {
			skip[offloadPrefix] = false
		}
	}
	for key, value := range before {
		if skip[settingPrefix] && strings.HasPrefix(key, settingPrefix) || skip[offloadPrefix] && strings.HasPrefix(key, offloadPrefix) {
			state[key] = value
		}
	}
	return take(ns, skip, state)
}

// Prefixes of keys, and the key that records whether the kernel reports changes of offloads.
const (
	settingPrefix   = "setting "
	offloadPrefix   = "offload "
	reportsOffloads = "reports of offloads"
)

// take reads the configuration into the state, except skipped parts.
func take(ns *netns.Namespace, skip map[string]bool, state State) (State, error) {
	err := ns.Do(func() error {
		r, err := newReader(state)
		if err != nil {
			return err
		}
		defer r.close()
		reads := []func() error{r.devices, r.addresses, r.routing, r.neighbors, r.traffic, r.filters, r.programs}
		if !skip[offloadPrefix] {
			reads = append(reads, r.offloads)
		}
		if !skip[settingPrefix] {
			reads = append(reads, r.settings)
		}
		for _, read := range reads {
			if err := read(); err != nil {
				return err
			}
		}
		if handle, err := netlink.NewHandle(unix.NETLINK_GENERIC); err == nil {
			if _, err := handle.GenlFamilyGet("ethtool"); err == nil {
				state[reportsOffloads] = "yes"
			}
			handle.Close()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the configuration of a namespace: %w", err)
	}
	if err := readAttributes(ns, state); err != nil {
		return nil, fmt.Errorf("read the configuration of a namespace: %w", err)
	}
	return state, nil
}

// Digest is the SHA-256 sum of the state in hexadecimal.
func (s State) Digest() string {
	hash := sha256.New()
	var line []byte
	for _, key := range slices.Sorted(maps.Keys(s)) {
		line = line[:0]
		for _, text := range []string{key, s[key]} {
			line = append(append(strconv.AppendInt(line, int64(len(text)), 10), ':'), text...)
		}
		hash.Write(line)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Change is a difference of one key. Before or After is empty if the key is missing there.
type Change struct {
	What          string // a key of State
	Before, After string
}

// String describes the change.
func (c Change) String() string {
	switch {
	case c.Before == "" && c.After == "":
		return c.What + " was changed"
	case c.Before == "":
		return fmt.Sprintf("%s was added (%s)", c.What, c.After)
	case c.After == "":
		return fmt.Sprintf("%s was removed (%s)", c.What, c.Before)
	}
	return fmt.Sprintf("%s was %s and is %s", c.What, c.Before, c.After)
}

// Changes lists the differences of two states by key.
func Changes(before, after State) (all []Change) {
	for key, old := range before {
		if now, there := after[key]; !there || now != old {
			all = append(all, Change{key, old, now})
		}
	}
	for key, now := range after {
		if _, was := before[key]; !was {
			all = append(all, Change{key, "", now})
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		if a.What < b.What {
			return -1
		}
		return 1
	})
	return all
}
