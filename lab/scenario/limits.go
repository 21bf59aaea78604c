// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/direction"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/traffic"
)

// Limit is a bandwidth limit on one direction of the traffic of a host, and its mechanism.
type Limit struct {
	Name      string
	Host      string
	Direction direction.Direction
	Mechanism Mechanism
	Rate      units.BitRate // of IP packets and 14 bytes of Ethernet header each
	// Burst, Mark and Drop are thresholds of the BPF mechanisms; 0 is the default, which scales
	// with the rate.
	Burst, Mark, Drop time.Duration
	Flows             []string // limited flows; empty: all flows that begin or end at the host
	Link              string   // link of the host for a limit at a device; "" is the only one
	Through           []string // flows with data through the device, for a limit at a device
}

// Mechanism imposes a limit.
type Mechanism string

const (
	Police     Mechanism = "police"       // the policer's BPF programs on a cgroup, with explicit-rate pacing
	Classic    Mechanism = "classic"      // the same without pacing: the algorithm of the LPC 2018 talk
	Shadow     Mechanism = "shadow"       // the same as police, counting only
	Shape      Mechanism = "shape"        // the shaper's BPF programs at a device: departure times in fq
	HTB        Mechanism = "htb"          // a hierarchical token bucket with one class and a pfifo
	HTBFqCodel Mechanism = "htb-fq_codel" // the same with fq_codel (RFC 8290)
	Unlimited  Mechanism = "none"
)

// Mechanisms returns all mechanisms.
func Mechanisms() []Mechanism {
	return []Mechanism{Police, Shape, Classic, Shadow, HTB, HTBFqCodel, Unlimited}
}

// Meaning describes a mechanism in one line.
func (m Mechanism) Meaning() string {
	return map[Mechanism]string{
		Police:     "the data plane of `weir run --limit` and of `mode: police` in a policy, on a cgroup of the run with the flows' sockets",
		Shape:      "the data plane of `mode: shape` in a policy, at the host's device: all packets of the device, forwarded ones included, are delayed to their departure time, and the host's own TCP is paced",
		Classic:    "as `police`, without pacing: the algorithm of the LPC 2018 talk",
		Shadow:     "as `police`, counting only",
		HTB:        "a hierarchical token bucket on the host's device, with one class at the rate and a pfifo of 1000 packets, the default txqueuelen. Its burst is 1 ms, at least 10 packets; tc's default is one packet",
		HTBFqCodel: "the same with fq_codel, the kernel's defaults and ECN",
		Unlimited:  "no limit",
	}[m]
}

// Cgroup reports whether the mechanism applies to the sockets of a cgroup.
func (m Mechanism) Cgroup() bool { return m == Police || m == Classic || m == Shadow }

// Queue reports whether the mechanism is a qdisc of the device.
func (m Mechanism) Queue() bool { return m == HTB || m == HTBFqCodel }

// AtDevice reports whether it limits all packets of a device.
func (m Mechanism) AtDevice() bool { return m.Queue() || m == Shape }

// Covers reports whether the limit applies to a flow that begins or ends at its host.
func (l Limit) Covers(flow string) bool { return len(l.Flows) == 0 || slices.Contains(l.Flows, flow) }

// On reports whether the limit applies to the flow's data at its sender or receiver.
func (l Limit) On(f traffic.Flow) bool {
	if l.Mechanism.AtDevice() {
		return slices.Contains(l.Through, f.Name)
	}
	from, to := f.Data()
	return l.Covers(f.Name) && [...]string{direction.Egress: from, direction.Ingress: to}[l.Direction] == l.Host
}

type limitFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name,required" doc:"Subject of the limit's figures."`
	Host            string          `yaml:"host,required" doc:"Host with the limit."`
	Direction       string          `yaml:"direction" enum:"egress,ingress" doc:"egress: sent packets; ingress: received packets; egress if left out."`
	Mechanism       string          `yaml:"mechanism,required" enum:"police,shape,classic,shadow,htb,htb-fq_codel,none" doc:"police, classic and shadow are BPF programs on a cgroup, shape BPF programs at the host's device, htb and htb-fq_codel qdiscs of the device."`
	Rate            units.BitRate   `yaml:"rate,required" doc:"Bits per second of IP packets and 14 bytes of Ethernet header each."`
	Burst           *units.Duration `yaml:"burst" doc:"How far an idle limit may run ahead, in time at the rate; not for queues."`
	Mark            *units.Duration `yaml:"mark" doc:"Virtual queue at which ECN marks and reductions begin; not for queues."`
	Drop            *units.Duration `yaml:"drop" doc:"Virtual queue at which packets are rejected or dropped; not for queues."`
	Link            string          `yaml:"link" doc:"Link with the limited device, for shape, htb and htb-fq_codel; the host's only link if left out."`
	Flows           []yamlfile.Text `yaml:"flows" doc:"Limited flows of the host; all if left out."`
}

// Renamed returns the current spelling of a former mechanism; "" for none.
func (*limitFile) Renamed(key, value string) string {
	return map[[2]string]string{{"mechanism", "weir"}: "mechanism: police", {"mechanism", "refusal"}: "mechanism: police",
		{"mechanism", "delay"}: "mechanism: shape"}[[2]string{key, value}]
}

func (b *builder) limits() {
	for i, f := range b.file.Limits {
		path := fmt.Sprintf("limits[%d]", i)
		l := Limit{Name: f.Name, Host: f.Host, Mechanism: Mechanism(f.Mechanism), Rate: f.Rate, Link: f.Link}
		if f.Direction != "" {
			_ = l.Direction.UnmarshalText([]byte(f.Direction)) // invalid values were reported already
		}
		for _, threshold := range []struct {
			from *units.Duration
			to   *time.Duration
		}{{f.Burst, &l.Burst}, {f.Mark, &l.Mark}, {f.Drop, &l.Drop}} {
			if threshold.from != nil {
				*threshold.to = time.Duration(*threshold.from)
			}
		}
		for _, name := range f.Flows {
			l.Flows = append(l.Flows, name.Value)
			b.limitedFlow(l, name, path)
		}
		switch {
		case !nodeName.MatchString(f.Name):
			b.complain(f.At("name"), "use letters, digits, - and _, a letter first, 31 at most", "%s.name: %q is no name", path, f.Name)
		case slices.ContainsFunc(b.cell.Limits, func(have Limit) bool { return have.Name == f.Name }):
			b.complain(f.At("name"), "give each limit a name of its own", "%s: there is a limit %q already", path, f.Name)
		}
		if b.node(f.At("host"), path+".host", f.Host) {
			b.limitFits(f, l, path)
			b.limitHost(f, l, path)
			l.Through = b.through(l)
		}
		b.cell.Limits = append(b.cell.Limits, l)
	}
}

// limitFits checks the limit against the host and former limits.
func (b *builder) limitFits(f limitFile, l Limit, path string) {
	var links []string
	for _, link := range b.cell.Links {
		if link.A == l.Host || link.B == l.Host {
			links = append(links, link.Name)
		}
	}
	switch {
	case l.Rate == 0:
		b.complain(f.At("rate"), "write a rate such as 10Mbit", "%s.rate: 0 is not allowed", path)
	case l.Mechanism.Queue() && l.Direction == direction.Ingress:
		b.complain(f.At("mechanism"), "limit the egress of the hosts that send", "%s.mechanism: %s is a queue at egress; it cannot limit ingress", path, l.Mechanism)
	case l.Mechanism.AtDevice() && len(l.Flows) > 0:
		b.complain(f.At("flows"), "leave flows out", "%s.flows: %s limits all packets of a device", path, l.Mechanism)
	case l.Mechanism.AtDevice() && l.Link == "" && len(links) != 1:
		b.complain(f.At("host"), "name one: link: "+strings.Join(links, " or "), "%s.host: %s has %d links, and %s limits one device", path, l.Host, len(links), l.Mechanism)
	case l.Link != "" && !slices.Contains(links, l.Link):
		b.complain(f.At("link"), "name one of "+quoted(links), "%s.link: %s has no link %q", path, l.Host, l.Link)
	case l.Link != "" && l.Mechanism.Cgroup():
		b.complain(f.At("link"), "leave link out, or limit the device: mechanism: shape", "%s.link: %s limits sockets, on all links", path, l.Mechanism)
	case l.Mark > 0 && l.Drop > 0 && l.Mark >= l.Drop:
		b.complain(f.At("mark"), "lower mark or raise drop", "%s.mark: %s is not below drop, %s", path, l.Mark, l.Drop)
	}
	for _, other := range b.cell.Limits {
		if other.Host != l.Host || !overlap(other, l) || other.Link != l.Link && other.Mechanism.AtDevice() && l.Mechanism.AtDevice() {
			continue
		}
		if other.Direction == l.Direction {
			b.complain(f.Self, "name different flows for each", "%s: limit %q is on the same traffic of %s", path, other.Name, l.Host)
		} else if !slices.Equal(other.Flows, l.Flows) {
			b.complain(f.At("flows"), "name the same flows in both", "%s.flows: limit %q is on some of these flows and not on all", path, other.Name)
		}
	}
}

// limitHost reports limits of sockets at routers, which forward packets without sockets.
func (b *builder) limitHost(f limitFile, l Limit, path string) {
	for _, n := range b.cell.Nodes {
		if n.Name == f.Host && n.Router && !l.Mechanism.AtDevice() && l.Mechanism != Unlimited {
			b.complain(f.At("host"), "limit its device: mechanism: shape; or the end hosts of the traffic", "%s.host: %s is a router", path, f.Host)
		}
	}
}

// through returns the flows with data through the device of a limit, in its direction.
func (b *builder) through(l Limit) (names []string) {
	if !l.Mechanism.AtDevice() {
		return nil
	}
	n := b.network
	for _, phase := range b.cell.Phases {
		for _, f := range phase.Flows {
			from, to := f.Data()
			here := n.index[from]
			hops, _ := n.path(here, n.index[to])
			for _, h := range hops {
				next := n.other(h.link, here)
				end := [...]int{direction.Egress: here, direction.Ingress: next}[l.Direction]
				if n.nodes[end].Name == l.Host && (l.Link == "" || n.links[h.link].Name == l.Link) && !slices.Contains(names, f.Name) {
					names = append(names, f.Name)
				}
				here = next
			}
		}
	}
	return names
}

func overlap(a, b Limit) bool {
	return len(a.Flows) == 0 || len(b.Flows) == 0 || slices.ContainsFunc(a.Flows, func(name string) bool { return slices.Contains(b.Flows, name) })
}

// limitedFlow checks that a named flow begins or ends at the host.
func (b *builder) limitedFlow(l Limit, name yamlfile.Text, path string) {
	var own []string
	for _, phase := range b.cell.Phases {
		for _, flow := range phase.Flows {
			if flow.Name == name.Value && (flow.From == l.Host || flow.To == l.Host) {
				return
			}
			if flow.From == l.Host || flow.To == l.Host {
				own = append(own, flow.Name)
			}
		}
	}
	b.complain(name.Place, "name some of "+quoted(own), "%s.flows: host %s has no flow %q", path, l.Host, name.Value)
}
