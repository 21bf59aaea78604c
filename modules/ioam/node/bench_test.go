// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/testutil"
	"weir/modules/ioam/codec"
)

// cost returns the time of a program run in ns: the minimum of several series. Each starts with the
// same packet.
func (b *bench) cost(program *ebpf.Program, in []byte, repeat uint32) float64 {
	b.t.Helper()
	lowest := time.Hour
	for range 2000 {
		options := &ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+4096), Context: skb{Ifindex: 1, From: 1}, ContextOut: &skb{}, Repeat: repeat}
		var took time.Duration
		err := b.ns.Do(func() (err error) {
			before := runtimeOf(program)
			_, err = program.Run(options)
			took = (runtimeOf(program) - before) / time.Duration(repeat)
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
		lowest = min(lowest, took)
	}
	return float64(lowest)
}

// runtimeOf returns the run time that the kernel counted for a program.
func runtimeOf(program *ebpf.Program) time.Duration {
	stats, err := program.Stats()
	if err != nil {
		return 0
	}
	return stats.Runtime
}

// BenchmarkPacket measures the cost of the programs per packet, with BPF_PROG_TEST_RUN.
func BenchmarkPacket(b *testing.B) {
	four := codec.HopLimitNode | codec.Interfaces | codec.Seconds | codec.Fraction
	exit := full
	exit.Remove = true
	traced := codec.NewTrace(123, four, 14, 0)
	all := codec.NewTrace(123, 0xfff000&^codec.Checksum, 3, 0)
	scope := aScope(Encapsulation{Options: []Option{{Type: codec.PreallocatedTrace, Namespace: 123, Fields: four, Nodes: 3}}})
	ip4 := packet(0, nil, 1152)
	ip4[12], ip4[13], ip4[14] = 8, 0, 0x45
	sockets := aNode(full)
	sockets.Node.SocketContext = true
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = stats.Close() }()
	bench := newBench(b, aNode(full))
	for _, test := range []struct {
		name   string
		want   Config
		scopes []module.Bound
		egress bool
		in     []byte
		repeat uint32
	}{
		{"IPv4, which is what the measurement takes", aNode(full), nil, true, ip4, 100},
		{"IPv4, once", aNode(full), nil, true, ip4, 1},
		{"idle egress", aNode(full), nil, true, packet(0, nil, 1152), 100},
		{"idle ingress", aNode(full), nil, false, packet(0, nil, 1152), 100},
		{"transit, 4 fields", aNode(full), nil, true, packet(0, hop(traced), 1000), 14},
		{"transit, 11 fields", aNode(full), nil, true, packet(0, hop(all), 1000), 3},
		{"another namespace", aNode(full), nil, true, packet(0, hop(codec.NewTrace(9, four, 1, 0)), 1000), 100},
		{"transit, 4 fields, once", aNode(full), nil, true, packet(0, hop(traced), 1000), 1},
		{"encapsulation, 4 fields", aNode(full), []module.Bound{scope}, true, packet(0, nil, 1152), 1},
		{"encapsulation, 4 fields, of a socket that may have a context", sockets, []module.Bound{scope}, true, packet(0, nil, 1152), 1},
		{"exit, 4 fields", aNode(exit), nil, false, packet(0, hop(codec.NewTrace(123, four, 3, 0)), 1000), 1},
	} {
		b.Run(test.name, func(b *testing.B) {
			bench.again(test.want, test.scopes...)
			program := bench.objects.IoamIngress
			if test.egress {
				program = bench.objects.IoamEgress
			}
			b.ReportMetric(bench.cost(program, test.in, test.repeat), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// One round of BenchmarkChain with one setting consists of many short bursts; the fastest tenth
// counts. With an instruction clock fewer are enough (-short).
const packets = 100

func roundsAndBursts() (rounds, bursts int) {
	if testing.Short() {
		return 2, 20
	}
	return 5, 200
}

func first(n, _ int) int { return n }

// BenchmarkChain sends datagrams of 1,200 bytes over the paper's five nodes on one CPU. Each round
// measures all settings in random order. It reports median, minimum and maximum of the ratios to
// plain forwarding in the same round.
func BenchmarkChain(b *testing.B) {
	c := newChain(b, 1500)
	trace := func(namespace int) string {
		return fmt.Sprintf("{namespace: %d, trace: [node], nodes: 3}", namespace)
	}
	several := func(n int, of func(int) int) string {
		var all []string
		for i := range n {
			all = append(all, trace(of(i)))
		}
		return "options: [" + strings.Join(all, ", ") + "]"
	}
	one, own := func(int) int { return 123 }, func(i int) int { return 200 + i }
	settings := []struct{ name, treatment string }{
		{"plain", "none"}, {"empty programs", "empty"}, {"registered", ""}, {"0.01 %", allFields + ", every: 10000"}, {"1 %", allFields + ", every: 100"}, {"10 %", allFields + ", every: 10"},
		{"50 %", allFields + ", every: 2"}, {"100 %", allFields}, {"1 option", several(1, one)}, {"3 options", several(3, one)}, {"6 options", several(6, one)},
		{"8 options", several(8, one)}, {"11 options", several(11, one)},
		{"3 namespaces", several(3, own)}, {"7 namespaces", several(7, own)}, {"10 namespaces", several(10, own)},
	}
	for _, node := range chainNames {
		if _, err := inside(c.ns[node], "/bin/sh", "-c", "echo 16 > /proc/sys/net/ipv6/max_hbh_opts_number"); err != nil {
			b.Fatal(err)
		}
	}
	from, to := c.datagrams(b)
	_ = unix.SetsockoptInt(to, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) // without a reader
	ratios, rounds := map[string][]float64{}, first(roundsAndBursts())
	for range rounds {
		rates := map[string]float64{}
		for _, i := range rand.Perm(len(settings)) {
			s := settings[i]
			c.set(b, s.treatment)
			rates[s.name] = c.rate(b, from)
		}
		for name, rate := range rates {
			ratios[name] = append(ratios[name], rate/rates["plain"])
		}
	}
	for _, s := range settings {
		b.Run(s.name, func(b *testing.B) {
			all := ratios[s.name]
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], "of-plain")
			b.ReportMetric(all[0], "min")
			b.ReportMetric(all[len(all)-1], "max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkHeadroom measures the cost of a trace for packets with and without headroom. An XDP
// program on a veth device makes the kernel move packets to 256 bytes of headroom. All settings
// with headroom have it, so the difference is the cost of the trace.
func BenchmarkHeadroom(b *testing.B) {
	took, idle, rounds := map[string][]float64{}, map[string][]float64{}, first(roundsAndBursts())
	for _, free := range []bool{false, true} {
		c := newChain(b, 1500)
		name := "no headroom"
		if free {
			name = "headroom"
			c.passXDP(b, "athos", "left")
		}
		from, to := c.datagrams(b)
		_ = unix.SetsockoptInt(to, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) // without a reader
		for range rounds {
			c.set(b, "")
			without := 1e9 / c.rate(b, from)
			c.set(b, allFields)
			took[name] = append(took[name], 1e9/c.rate(b, from)-without)
			idle[name] = append(idle[name], without)
		}
	}
	for name, all := range took {
		b.Run(name, func(b *testing.B) {
			slices.Sort(all)
			slices.Sort(idle[name])
			b.ReportMetric(idle[name][rounds/2], "ns/packet")
			b.ReportMetric(all[len(all)/2], "ns/trace")
			b.ReportMetric(all[0], "min")
			b.ReportMetric(all[len(all)-1], "max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// passXDP attaches an XDP program that passes all packets.
func (c *chain) passXDP(b testing.TB, node, dev string) {
	b.Helper()
	err := c.ns[node].Do(func() error {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
		if err != nil {
			return err
		}
		defer func() { _ = program.Close() }()
		found, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: found.Index, Flags: link.XDPDriverMode})
		if err == nil {
			b.Cleanup(func() { _ = attached.Close() })
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// empty attaches programs without effect at the hooks of a node.
func (c *chain) empty(b testing.TB) {
	b.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	for _, node := range []string{"athos", "porthos", "aramis"} {
		for _, dev := range []string{"left", "right"} {
			for _, hook := range []device.Hook{device.Ingress, device.Egress} {
				a, err := device.Attach(c.ns[node], dev, hook, attachOrder, attachName, program, device.Options{})
				if err != nil {
					b.Fatal(err)
				}
				c.idle = append(c.idle, a)
			}
		}
	}
}

// set applies a treatment: "none" removes all programs, "empty" attaches programs without effect,
// "" applies nodes without encapsulation.
func (c *chain) set(b testing.TB, treatment string) {
	b.Helper()
	for _, a := range c.idle {
		if err := a.Detach(); err != nil {
			b.Fatal(err)
		}
	}
	c.idle = nil
	if treatment == "none" || treatment == "empty" {
		for _, node := range []string{"athos", "porthos", "aramis"} {
			if _, err := c.planes[node].Release(); err != nil {
				b.Fatal(err)
			}
			c.states[node] = module.State{}
		}
		if treatment == "empty" {
			c.empty(b)
		}
		return
	}
	var more, remove strings.Builder
	for id := 200; id < 210; id++ {
		fmt.Fprintf(&more, "\n    %d: {}", id)
		fmt.Fprintf(&remove, "\n    %d: {remove: true}", id)
	}
	scope := ""
	if treatment != "" {
		scope = `beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, ` + treatment + `}}`
	}
	c.apply(b, "athos", nodePolicy(1, "", "ingress, egress", "}"+more.String()+"\n    211: {", scope))
	c.apply(b, "porthos", nodePolicy(2, "ingress, egress", "ingress, egress", "}"+more.String()+"\n    211: {", ""))
	c.apply(b, "aramis", nodePolicy(3, "ingress, egress", "", ", remove: true}"+remove.String()+"\n    211: {", ""))
}

// rate returns packets per second over the chain. Each packet has arrived when its send returns.
func (c *chain) rate(b testing.TB, from int) float64 {
	b.Helper()
	defer testutil.OnOneCPU(b)()
	datagram := make([]byte, 1200-48)
	var took []time.Duration
	_, bursts := roundsAndBursts()
	for range bursts {
		start := time.Now()
		for range packets {
			if _, err := unix.Write(from, datagram); err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return packets / took[bursts/10].Seconds()
}

// BenchmarkStream sends TCP over the same nodes, in bursts of 1 MiB.
func BenchmarkStream(b *testing.B) {
	c := newChain(b, 1500)
	settings := []struct{ name, treatment string }{{"plain", "none"}, {"registered", ""}, {"1 %", allFields + ", every: 100"}, {"100 %", allFields}}
	ratios, rounds := map[string][]float64{}, first(roundsAndBursts())
	for range rounds {
		rates := map[string]float64{}
		for _, i := range rand.Perm(len(settings)) {
			c.set(b, settings[i].treatment)
			rates[settings[i].name] = c.streamRate(b)
		}
		for name, rate := range rates {
			ratios[name] = append(ratios[name], rate/rates["plain"])
		}
	}
	for _, s := range settings {
		b.Run(s.name, func(b *testing.B) {
			all := ratios[s.name]
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], "of-plain")
			b.ReportMetric(all[0], "min")
			b.ReportMetric(all[len(all)-1], "max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// streamRate returns the rate of the fastest bursts of a connection.
func (c *chain) streamRate(b testing.TB) float64 {
	b.Helper()
	client, end := c.connection(b)
	octets := make([]byte, 1<<20)
	var took []time.Duration
	_, bursts := roundsAndBursts()
	for range bursts {
		failed := make(chan error, 1)
		start := time.Now()
		go func() {
			var err error
			for rest := octets; len(rest) > 0 && err == nil; {
				var n int
				n, err = unix.Write(client, rest)
				rest = rest[max(n, 0):]
			}
			failed <- err
		}()
		_, err := io.CopyN(io.Discard, end, int64(len(octets)))
		took = append(took, time.Since(start))
		if sent := <-failed; sent != nil || err != nil {
			b.Fatal(sent, err)
		}
	}
	slices.Sort(took)
	return float64(len(octets)) / took[bursts/10].Seconds()
}
