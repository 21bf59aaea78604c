// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/lab/traffic"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// limitTrees are commands of tc, with DEV, RATE in bit/s, BURST and QUANTUM in bytes, like those of
// lab/limits.
var limitTrees = map[limitHolder][]string{
	limitHTB: {"tc qdisc add dev DEV root handle 1: htb default 1",
		"tc class add dev DEV parent 1: classid 1:1 htb rate RATEbit burst BURST cburst BURST quantum QUANTUM",
		"tc qdisc add dev DEV parent 1:1 pfifo limit 1000"},
	limitCodel: {"tc qdisc add dev DEV root handle 1: htb default 1",
		"tc class add dev DEV parent 1: classid 1:1 htb rate RATEbit burst BURST cburst BURST quantum QUANTUM",
		"tc qdisc add dev DEV parent 1:1 fq_codel"},
	limitCake:  {"tc qdisc add dev DEV root cake bandwidth RATEbit besteffort"},
	limitPaced: {"tc qdisc add dev DEV root fq"},
	limitEDT:   {"tc qdisc add dev DEV root fq flow_limit 10000 limit 100000"},
}

// can reports whether the kernel has the holder, and the load allows it.
func (c limitCell) can(h limitHolder) bool {
	var missing error
	switch h {
	case limitWeir:
		return c.router == nil // a router's packets have no socket in a cgroup
	case limitDelay, limitUnpaced:
		_, missing = shape.Available(c.direction)
	case limitPaced:
		return c.router == nil && c.direction == direction.Egress && strings.HasPrefix(c.network, "tcp") && c.each+int(c.first) == 0 &&
			c.beside == "" && probe.Qdisc("fq") == nil
	case limitHTB:
		missing = probe.Qdisc("htb")
	case limitCodel:
		missing = probe.Qdisc("fq_codel")
	case limitCake:
		missing = probe.Qdisc("cake")
	case limitEDT:
		missing = probe.Qdisc("fq")
	}
	if c.first > 0 && (h == limitCake || h == limitEDT) {
		return false
	}
	if c.direction == direction.Ingress && h != limitFree {
		missing = errors.Join(missing, probe.IFB())
	}
	return missing == nil
}

// place returns the limited device, and its namespace.
func (c limitCell) place() (*netns.Namespace, string) {
	switch {
	case c.router != nil:
		return c.router, "out"
	case c.direction == direction.Ingress:
		return c.to.Namespace, "b"
	}
	return c.from.Namespace, "a"
}

// hold limits the path by another means than a cgroup's policer.
func (c limitCell) hold(b *testing.B, rate units.BitRate) limitHeld {
	b.Helper()
	ns, device := c.place()
	if c.holder == limitDelay || c.holder == limitUnpaced {
		return c.shape(b, ns, device, rate)
	}
	if c.holder == limitFree {
		return limitHeld{func(units.BitRate) {}, func() {}}
	}
	remove := func() { command(b, ns, "tc qdisc del dev "+device+" root") }
	if c.direction == direction.Ingress {
		command(b, ns, "ip link add ifb0 type ifb", "ip link set dev ifb0 up", "tc qdisc add dev "+device+" clsact",
			"tc filter add dev "+device+" ingress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0")
		outer := device
		remove = func() { command(b, ns, "tc qdisc del dev "+outer+" clsact", "ip link del ifb0") }
		device = "ifb0"
	}
	for _, line := range limitTrees[c.holder] {
		command(b, ns, limitTree(line, device, rate))
	}
	if c.holder != limitEDT {
		return limitHeld{func(rate units.BitRate) {
			line := strings.Replace(limitTrees[c.holder][1], "class add", "class change", 1)
			command(b, ns, limitTree(line, device, rate))
		}, remove}
	}
	attached, err := attachEDT(ns, device, rate)
	must(b, err)
	return limitHeld{nil, func() {
		_ = attached.Close()
		remove()
	}}
}

// limitTree fills in a line of limitTrees.
func limitTree(line, device string, rate units.BitRate) string {
	burst, quantum := max(int(rate/8000), 3028), min(max(int(rate/80), 1514), 200_000)
	return strings.NewReplacer("DEV", device, "RATE", fmt.Sprint(int64(rate)), "BURST", fmt.Sprint(burst),
		"QUANTUM", fmt.Sprint(quantum)).Replace(line)
}

func indexOf(b *testing.B, ns *netns.Namespace, name string) int {
	b.Helper()
	conn, err := rtnl.Open(ns)
	must(b, err)
	defer conn.Close()
	device, err := conn.Device(name)
	must(b, err)
	return device.Index
}

// shape limits a device by Weir's shaper, with a policy's defaults.
func (c limitCell) shape(b *testing.B, ns *netns.Namespace, name string, rate units.BitRate) limitHeld {
	b.Helper()
	pins := testutil.BPFFS(b)
	root, err := cgroup.Root()
	must(b, err)
	host := shape.Host{Pins: filepath.Join(pins, "delay"), Devices: filepath.Join(pins, "devices"), Files: filepath.Join(b.TempDir(), "files"),
		CgroupRoot: root}
	index := indexOf(b, ns, name)
	set := func(rate units.BitRate) {
		l := police.Limit{Rate: rate, Mode: police.ModeShape}.WithDefaults()
		line := shape.Shaper{Device: name, Index: index, Direction: c.direction, Rate: rate, Cost: uint64(8e9 / float64(rate) * (1 << 24)),
			Burst: l.Burst, Mark: l.Mark, Horizon: l.Drop, SmallOctets: 128}
		must(b, ns.Do(func() error {
			return host.Apply(nil, shape.Work{Shapers: []shape.Shaper{line}, Unpaced: c.holder == limitUnpaced})
		}))
	}
	set(rate)
	return limitHeld{set, func() {
		must(b, ns.Do(func() error {
			_, err := host.Release()
			return err
		}))
	}}
}

// command runs programs in a network namespace.
func command(b *testing.B, ns *netns.Namespace, lines ...string) {
	b.Helper()
	for _, line := range lines {
		words := strings.Fields(line)
		must(b, ns.Do(func() error {
			if said, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, said)
			}
			return nil
		}))
	}
}

// routedPath is a path through a router; the router's device to the receiver is named out.
func routedPath(b *testing.B) (from, to traffic.Endpoint, router *netns.Namespace) {
	b.Helper()
	from = traffic.Endpoint{Namespace: testutil.Namespace(b, "from"), Address: netip.MustParseAddr("10.0.0.1")}
	to = traffic.Endpoint{Namespace: testutil.Namespace(b, "to"), Address: netip.MustParseAddr("10.0.1.1")}
	router = testutil.Namespace(b, "router")
	near, err1 := rtnl.Open(from.Namespace)
	middle, err2 := rtnl.Open(router)
	must(b, errors.Join(err1, err2))
	defer near.Close()
	defer middle.Close()
	must(b, errors.Join(near.AddVeth("a", router, "in", 0), middle.AddVeth("out", to.Namespace, "b", 0),
		sysctl.Set(router, "net.ipv4.ip_forward", "1")))
	command(b, from.Namespace, "ip addr add 10.0.0.1/24 dev a", "ip link set dev a up", "ethtool -K a tso off gso off")
	command(b, router, "ip addr add 10.0.0.2/24 dev in", "ip addr add 10.0.1.2/24 dev out", "ip link set dev in up", "ip link set dev out up",
		"ethtool -K in gro off", "ethtool -K out tso off gso off")
	command(b, to.Namespace, "ip addr add 10.0.1.1/24 dev b", "ip link set dev b up", "ip route add default via 10.0.1.2")
	command(b, from.Namespace, "ip route add default via 10.0.0.2")
	testutil.Eventually(b, 5*time.Second, "the links", func() bool {
		inner, err1 := middle.Device("in")
		outer, err2 := middle.Device("out")
		return err1 == nil && err2 == nil && inner.Running && outer.Running
	})
	return from, to, router
}
