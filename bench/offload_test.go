// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
	"weir/kernel/napi"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/live"
	"weir/modules/offload/load"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
)

// offloadBench is a router with a full table between a sender and a sink.
type offloadBench struct {
	router, left, right *netns.Namespace
	l, p0, p1, r        state.Link
	routes              []netip.Prefix
	programs            *ebpf.Collection
	frame               []byte
	targets             []uint32
	random              *rand.Rand
	socket              int
}

// send sends a packet to a random destination.
func (o *offloadBench) send() error {
	to, h := o.targets[o.random.IntN(len(o.targets))], o.frame[14:34]
	binary.NativeEndian.PutUint32(h[16:], to)
	h[10], h[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	for {
		err := unix.Sendto(o.socket, o.frame, 0, &unix.SockaddrLinklayer{Ifindex: o.l.Index, Halen: 6})
		if !errors.Is(err, unix.ENOBUFS) { // the router's ring is full
			return err
		}
		runtime.Gosched()
	}
}

func ipIn(b *testing.B, ns *netns.Namespace, line string) {
	b.Helper()
	if out, err := exec.Command("ip", append([]string{"-n", ns.Name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
		b.Fatalf("ip %s: %v\n%s", line, err, out)
	}
}

const offloadHops = 16

// newOffloadBench makes one; its kernel has the routes.
func newOffloadBench(b *testing.B) *offloadBench { return offloadBenchOf(b, fullTable(b)) }

// offloadBenchOf makes one with other routes.
func offloadBenchOf(b *testing.B, routes []netip.Prefix) *offloadBench {
	b.Helper()
	testutil.Need(b, "XDP on veth", probe.XDPNative())
	o := &offloadBench{router: testutil.Namespace(b, "router"), left: testutil.Namespace(b, "left"), right: testutil.Namespace(b, "right"), routes: routes}
	ipIn(b, o.router, "link add p0 type veth peer name l netns "+o.left.Name)
	ipIn(b, o.router, "link add p1 type veth peer name r netns "+o.right.Name)
	for _, line := range []string{"addr add 10.1.0.1/16 dev p0", "addr add 10.2.0.1/16 dev p1", "link set dev p0 up", "link set dev p1 up"} {
		ipIn(b, o.router, line)
	}
	ipIn(b, o.left, "link set dev l up")
	ipIn(b, o.right, "link set dev r up")
	if out, err := exec.Command("ip", "netns", "exec", o.router.Name, "sysctl", "-qw", "net.ipv4.ip_forward=1").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var batch strings.Builder
	for i := range offloadHops {
		fmt.Fprintf(&batch, "neigh add 10.2.0.%d lladdr 02:00:00:00:00:%02x dev p1 nud permanent\n", 2+i, 2+i)
	}
	batch.WriteString("neigh add 10.1.0.2 lladdr 02:00:00:00:01:02 dev p0 nud permanent\n")
	for i, to := range o.routes {
		fmt.Fprintf(&batch, "route append %s via 10.2.0.%d\n", to, 2+(i*7919)%offloadHops)
	}
	add := exec.Command("ip", "-n", o.router.Name, "-batch", "-")
	add.Stdin = strings.NewReader(batch.String())
	if out, err := add.CombinedOutput(); err != nil {
		b.Fatalf("ip -batch: %v\n%s", err, out)
	}
	for _, at := range []struct {
		ns   *netns.Namespace
		name string
		into *state.Link
	}{{o.left, "l", &o.l}, {o.router, "p0", &o.p0}, {o.router, "p1", &o.p1}, {o.right, "r", &o.r}} {
		if err := ethtool.SetFeatures(at.ns, at.name, map[string]bool{"gro": true}); err != nil {
			b.Fatal(err)
		}
		if at.ns == o.router {
			continue
		}
		s, err := live.Read(at.ns)
		if err != nil {
			b.Fatal(err)
		}
		*at.into, _ = s.Find(at.name)
	}
	return o
}

// read returns the router's state, with its ports.
func (o *offloadBench) read(b *testing.B) *state.State {
	b.Helper()
	s, err := live.Read(o.router)
	if err != nil {
		b.Fatal(err)
	}
	o.p0, _ = s.Find("p0")
	o.p1, _ = s.Find("p1")
	return s
}

// table returns the fast path's table for a state, valid for long.
func (o *offloadBench) table(b *testing.B, s *state.State) *xdp.Table {
	b.Helper()
	p, err := plan.New(plan.Policy{From: []string{"p0", "p1"}, IPv4: true}, s)
	if err != nil {
		b.Fatal(err)
	}
	table, err := xdp.New(o.router, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(table.Close)
	if err := table.Renew(time.Hour); err != nil {
		b.Fatal(err)
	}
	return table
}

// load loads the programs.
func (o *offloadBench) load(b *testing.B, blocks *ebpf.Map) {
	b.Helper()
	spec, err := load.Spec()
	if err != nil {
		b.Fatal(err)
	}
	const targets = 1 << 18
	spec.Maps["load_targets"].MaxEntries = targets
	if err := spec.Variables["load_mask"].Set(uint32(targets - 1)); err != nil {
		b.Fatal(err)
	}
	if err := spec.Variables["load_device"].Set(uint32(o.p0.Index)); err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string]any{"load_to": [6]byte(o.p0.MAC), "load_from": [6]byte{2, 0, 0, 0, 1, 2}, "load_address": [4]byte{10, 1, 0, 2}, "load_out": uint32(o.p1.Index)} {
		if err := spec.Variables[name].Set(value); err != nil {
			b.Fatal(err)
		}
	}
	spec.Maps["fast_blocks"].MaxEntries = blocks.MaxEntries()
	o.programs, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{"fast_blocks": blocks}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(o.programs.Close)
	r := rand.New(rand.NewPCG(3, 4))
	keys, values := make([]uint32, targets), make([]uint32, targets)
	for i := range keys {
		p := o.routes[r.IntN(len(o.routes))]
		a := p.Addr().As4()
		x := binary.BigEndian.Uint32(a[:]) | r.Uint32()&uint32(uint64(1)<<(32-p.Bits())-1)
		binary.BigEndian.PutUint32(a[:], x)
		keys[i], values[i] = uint32(i), binary.NativeEndian.Uint32(a[:])
	}
	if _, err := o.programs.Maps["load_targets"].BatchUpdate(keys, values, nil); err != nil {
		b.Fatal(err)
	}
	for _, index := range []int{o.p0.Index, o.p1.Index} {
		if err := o.router.Do(func() error { return o.programs.Maps["load_ports"].Put(uint32(index), uint32(index)) }); err != nil {
			b.Fatal(err)
		}
	}
	o.targets, o.random = values, r
	err = o.left.Do(func() (err error) {
		o.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Close(o.socket) })
	o.frame = make([]byte, 60)
	copy(o.frame, o.p0.MAC[:])
	copy(o.frame[6:], net.HardwareAddr{2, 0, 0, 0, 1, 2})
	copy(o.frame[12:], []byte{8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2})
}

// attach attaches a program to a device until the end.
func attach(b *testing.B, ns *netns.Namespace, index int, p *ebpf.Program) link.Link {
	b.Helper()
	var l link.Link
	err := ns.Do(func() (err error) {
		l, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func (o *offloadBench) arrived(b *testing.B) (n uint64) {
	b.Helper()
	var each []uint64
	if err := o.programs.Maps["load_arrived"].Lookup(uint32(0), &each); err != nil {
		b.Fatal(err)
	}
	for _, x := range each {
		n += x
	}
	return n
}

// cost sends frames and returns the CPU time per frame in nanoseconds from the sender to the sink:
// the sender's softirq receives a veth's frames.
func (o *offloadBench) cost(b *testing.B, frames int) float64 {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ran := func() time.Duration {
		times, err := napi.TimesOf(unix.Gettid())
		if err != nil {
			b.Fatal(err)
		}
		return times.Ran
	}
	arrived, before := o.arrived(b), ran()
	for range frames {
		if err := o.send(); err != nil {
			b.Fatal(err)
		}
	}
	took := ran() - before
	time.Sleep(20 * time.Millisecond) // frames in the ring are still forwarded
	n := o.arrived(b) - arrived
	if n < uint64(frames)*9/10 {
		b.Fatalf("only %d of %d frames have arrived", n, frames)
	}
	return float64(took.Nanoseconds()) / float64(n)
}

// BenchmarkOffloadForwarding compares, in turns, the cost of a packet to a random destination of a
// full table, forwarded by the kernel, by a program with a lookup in the kernel's table, and by the
// fast path. A sink at the router measures the cost of sending and receiving.
func BenchmarkOffloadForwarding(b *testing.B) {
	o := newOffloadBench(b)
	s := o.read(b)
	begin := time.Now()
	p, err := plan.New(plan.Policy{From: []string{"p0", "p1"}, IPv4: true}, s)
	if err != nil {
		b.Fatal(err)
	}
	planned := time.Since(begin)
	table, err := xdp.New(o.router, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(table.Close)
	if err := table.Renew(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d routes, planned in %s, table in %s, %d MiB", len(o.routes), planned.Round(time.Millisecond), (time.Since(begin) - planned).Round(time.Millisecond), table.Memory()>>20)
	o.load(b, table.Blocks())
	sink := attach(b, o.right, o.r.Index, o.programs.Programs["load_sink"])
	defer func() { _ = sink.Close() }()
	ways := []string{"sink", "kernel", "fib_lookup", "fast"}
	costs := map[string][]float64{}
	const rounds, frames = 21, 20_000
	for range b.N {
		for range rounds {
			for _, way := range ways {
				at := o.begin(b, way, table)
				o.cost(b, frames/10) // warm up
				costs[way] = append(costs[way], o.cost(b, frames))
				if at != nil {
					_ = at.Close()
				}
			}
		}
	}
	for _, way := range ways {
		b.ReportMetric(median(costs[way]), way+"-ns/packet")
	}
	for _, peer := range []string{"kernel", "fib_lookup"} {
		var whole, alone []float64
		for i := range costs[peer] {
			whole = append(whole, costs[peer][i]/costs["fast"][i])
			alone = append(alone, (costs[peer][i]-costs["sink"][i])/(costs["fast"][i]-costs["sink"][i]))
		}
		slices.Sort(whole)
		slices.Sort(alone)
		b.Logf("%s costs %.2f times the fast path (rounds' quartiles %.2f to %.2f), %.2f times without sending and receiving (%.2f to %.2f)", peer,
			whole[len(whole)/2], whole[len(whole)/4], whole[len(whole)*3/4], alone[len(alone)/2], alone[len(alone)/4], alone[len(alone)*3/4])
	}
}

// begin activates one forwarder at the router.
func (o *offloadBench) begin(b *testing.B, way string, table *xdp.Table) link.Link {
	b.Helper()
	switch way {
	case "sink":
		return attach(b, o.router, o.p0.Index, o.programs.Programs["load_sink"])
	case "fib_lookup":
		return attach(b, o.router, o.p0.Index, o.programs.Programs["load_fib"])
	case "fast":
		at, _, err := table.Attach(o.p0.Index, nil)
		if err != nil {
			b.Fatal(err)
		}
		return at
	}
	return nil
}

// BenchmarkOffloadLookup is the cost of a lookup of a random destination of a full table.
func BenchmarkOffloadLookup(b *testing.B) {
	o := newOffloadBench(b)
	s, err := live.Read(o.router)
	if err != nil {
		b.Fatal(err)
	}
	p, err := plan.New(plan.Policy{From: []string{"p0", "p1"}, IPv4: true}, s)
	if err != nil {
		b.Fatal(err)
	}
	o.p0, _ = s.Find("p0")
	o.p1, _ = s.Find("p1")
	table, err := xdp.New(o.router, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(table.Close)
	o.load(b, table.Blocks())
	costs := map[string][]float64{}
	const runs = 2_000
	for range 21 {
		each := map[string]float64{}
		for _, name := range []string{"load_idle", "load_find", "load_ask"} {
			err := o.router.Do(func() error { // the namespace of the table
				_, took, err := o.programs.Programs[name].Benchmark(o.frame, runs, nil)
				each[name] = float64(took.Nanoseconds()) / load.Lookups
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		costs["fast"] = append(costs["fast"], each["load_find"]-each["load_idle"])
		costs["fib_lookup"] = append(costs["fib_lookup"], each["load_ask"]-each["load_idle"])
	}
	for _, way := range []string{"fast", "fib_lookup"} {
		all := slices.Sorted(slices.Values(costs[way]))
		b.ReportMetric(median(all), way+"-ns/lookup")
		b.Logf("%s: quartiles %.1f to %.1f ns", way, all[len(all)/4], all[len(all)*3/4])
	}
	var answered uint64
	if err := o.programs.Maps["load_answered"].Lookup(uint32(0), &answered); err != nil || answered == 0 {
		b.Fatalf("the kernel's table has answered nothing: %v", err)
	}
}
