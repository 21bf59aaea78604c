// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/modules/limit/shape"
)

// Names of blind spots, which are also bypasses of weir prove.
const (
	forwardedTraffic = module.ForwardedTraffic
	upperDevices     = "devices above the interface"
	nestedNamespaces = "network namespaces behind it"
	tunnelled        = "packets through tunnels"
	otherUplinks     = "network namespaces with an uplink of their own"
)

// surroundings are the facts of this host on which blind spots depend. The zero value has none.
type surroundings struct {
	forwards bool                      // the thread's network namespace routes or bridges packets
	above    func(dev string) []string // VLANs, macvlans, tunnels, bridges and bonds above a device
	tunnel   string                    // an active tunnel device, or ""
	stacked  string                    // an active device that may send through another one, or ""
	uplink   func() (string, error)    // another network namespace with an uplink of its own, or ""; nil for none
}

// elsewhere returns another network namespace with an uplink of its own, or "".
func (s surroundings) elsewhere() (string, error) {
	if s.uplink == nil {
		return "", nil
	}
	return s.uplink()
}

// here reads the facts of this host once, when the first scope needs them.
func here() func() surroundings { return sync.OnceValue(readSurroundings) }

func readSurroundings() (s surroundings) {
	s.uplink = recentUplink
	s.forwards = setTo1("net/ipv4/ip_forward") || setTo1("net/ipv6/conf/all/forwarding")
	links, err := rtnl.Open(nil)
	if err != nil {
		return s
	}
	defer links.Close()
	devices, err := links.Devices()
	if err != nil {
		return s
	}
	s.tunnel, s.stacked = shape.Tunnel(devices), shape.Stacked(devices)
	byIndex := map[int]rtnl.Device{}
	for _, d := range devices {
		byIndex[d.Index] = d
		s.forwards = s.forwards || d.Kind == "bridge" ||
			setTo1("net/ipv4/conf/"+d.Name+"/forwarding") || setTo1("net/ipv6/conf/"+d.Name+"/forwarding")
	}
	s.above = func(dev string) (all []string) {
		found, there := rtnl.Named(devices, dev)
		if !there {
			return nil
		}
		queue, seen := []int{found.Index}, map[int]bool{0: true, found.Index: true}
		for ; len(queue) > 0; queue = queue[1:] {
			for _, d := range devices {
				if (d.Below == queue[0] || d.Index == byIndex[queue[0]].Master) && !seen[d.Index] {
					seen[d.Index] = true
					all, queue = append(all, d.Name), append(queue, d.Index)
				}
			}
		}
		return all
	}
	return s
}

func setTo1(key string) bool {
	value, err := sysctl.Get(nil, key)
	return err == nil && value != "0"
}

// blindSpots returns the traffic of a scope that its limits do not cover, for plan, apply, status
// and prove alike. It is the only place that knows the blind spots of each selector and mode:
//
//	           policed                                  shaped
//	interface  forwarded, bridged; devices above it     -
//	netns      packets of namespaces behind it          -
//	prefix     forwarded, bridged                       packets through tunnels
//	host       forwarded, bridged                       packets of containers
//	mark       forwarded, bridged                       packets of containers
//	cgroup, unit, user                                  packets of containers
//
// Shaped packets of scopes wait at the devices of this network namespace, so no selector but
// interface and netns covers the uplinks of other namespaces.
func blindSpots(s policy.Scope, on func() surroundings) (all []module.BlindSpot) {
	t := treatmentOf(s)
	if t == nil || selector.IsLoopback(s.Selector) {
		return nil
	}
	add := func(name, format string, args ...any) {
		all = append(all, module.BlindSpot{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	var policed []string
	for _, d := range direction.Both {
		if counted(s, d) {
			policed = append(policed, d.String())
		}
	}
	which := strings.Join(policed, " and ")
	remedy := "add mode: shape to limit them"
	if len(policed) > 0 {
		switch s.Selector.Kind {
		case kindInterface:
			add(forwardedTraffic, "%s polices local sockets that use %s; forwarded and bridged packets are not limited: %s", which, s.Selector.Text, remedy)
			if above := on().above; above != nil {
				for _, upper := range above(s.Selector.Text) {
					add(upperDevices, "packets of local sockets over %s, a device above %s, are not limited: limit %s, or %s", upper, s.Selector.Text, upper, remedy)
				}
			}
		case kindNetns:
			add(nestedNamespaces, "%s polices sockets of the network namespace; packets that it forwards for namespaces behind it are not limited: %s", which, remedy)
		case "prefix", "host", "mark":
			if !on().forwards {
				break
			}
			if s.Selector.Kind == "mark" || !counted(s, Egress) {
				remedy = "limit an interface with mode: shape"
			}
			add(forwardedTraffic, "%s polices local sockets, and this host forwards; forwarded and bridged packets are not limited: %s", which, remedy)
		}
	}
	if shaped(s, Egress) {
		shapedBlindSpots(s.Selector.Kind, on, add)
	}
	return all
}

// shapedBlindSpots adds the blind spots of a scope of packets that is shaped at all egress devices.
func shapedBlindSpots(kind string, on func() surroundings, add func(name, format string, args ...any)) {
	if kind != "container" && !everywhere(kind) {
		return
	}
	if kind != "prefix" && on().forwards {
		add(forwardedTraffic, "this host forwards, and forwarded packets of containers with a network namespace of their own match no %s: they are not limited; limit their network namespace (netns), interface or prefix", kind)
	}
	if tunnel := on().tunnel; kind == "prefix" && tunnel != "" {
		add(tunnelled, "packets through the tunnel %s have other addresses at the device where they are shaped: they are not limited; limit %s, or write mode: police", tunnel, tunnel)
	}
	if at, err := on().elsewhere(); err == nil && at != "" {
		add(otherUplinks, "packets that leave by %s are not limited: limit that network namespace, or write mode: police", at)
	}
}

// everywhere reports whether packets of a kind of scope are shaped at all egress devices.
func everywhere(kind string) bool {
	return slices.Contains([]string{"cgroup", "unit", "user", "mark", "host", "prefix"}, kind)
}

// unseen warns of the blind spots of a policy on this host.
func unseen(p *policy.Policy, on func() surroundings) (warnings []string) {
	for _, s := range p.Scopes {
		for _, b := range blindSpots(onThisHost(s), on) {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: %s", p.At(s.Name, s.Selector.Kind), s.Name, b.Text))
		}
	}
	return warnings
}
