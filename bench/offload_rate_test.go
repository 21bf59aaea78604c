// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/kernel/napi"
	"weir/modules/offload/xdp"
)

// forwarders are compared in turn. nobody drops the source's frames, redirect sends all of them to
// the sink without a lookup: a forwarder's own time is the remainder without theirs.
var forwarders = []string{"nobody", "redirect", "kernel", "fib_lookup", "fast"}

// BenchmarkOffloadRate compares the forwarding rates of one core. The kernel makes frames to random
// destinations of a full table (BPF_PROG_TEST_RUN with live frames, 64 at a time, like a driver's
// NAPI poll). They begin at the router's port, leave by another, and are dropped and counted by XDP
// at the other end. One thread on one core does all of it, and its time is reported.
func BenchmarkOffloadRate(b *testing.B) {
	o := newOffloadBench(b)
	s := o.read(b)
	table := o.table(b, s)
	o.load(b, table.Blocks())
	sink := attach(b, o.right, o.r.Index, o.programs.Programs["load_sink"])
	defer func() { _ = sink.Close() }()
	programs := map[string]*ebpf.Program{"fast": o.fastProgram(b, table)}
	for name, p := range map[string]string{"nobody": "load_nobody", "redirect": "load_redirect", "kernel": "load_kernel", "fib_lookup": "load_fib"} {
		programs[name] = o.programs.Programs[p]
	}
	names := slices.Clone(forwarders)
	if p := o.xdpForward(b); p != nil {
		names, programs["xdp-forward"] = append(names, "xdp-forward"), p
	}
	costs := map[string][]float64{}
	const rounds, frames = 21, 1 << 16
	for range b.N {
		for range rounds {
			for _, name := range names {
				if err := o.programs.Maps["load_forwarder"].Put(uint32(0), programs[name]); err != nil {
					b.Fatal(err)
				}
				o.run(b, name, frames/8) // warm up
				costs[name] = append(costs[name], o.run(b, name, frames))
			}
		}
	}
	for _, name := range names {
		b.ReportMetric(median(costs[name]), name+"-ns/packet")
	}
	for _, peer := range names {
		if !slices.Contains([]string{"kernel", "fib_lookup", "xdp-forward"}, peer) {
			continue
		}
		whole := ratios(costs[peer], costs["fast"], nil)
		made := ratios(costs[peer], costs["fast"], costs["nobody"])
		alone := ratios(costs[peer], costs["fast"], costs["redirect"])
		b.ReportMetric(whole[1], peer+"/fast")
		b.Logf("%s takes %.2f times the fast path's time, with source and sink [%.2f, %.2f]; %.2f [%.2f, %.2f] without the source; %.2f [%.2f, %.2f] without the source, a redirect and the sink",
			peer, whole[1], whole[0], whole[2], made[1], made[0], made[2], alone[1], alone[0], alone[2])
	}
}

// xdpForward returns xdp-tools' xdp-forward program from the object named by WEIR_XDP_FORWARD
// (xdp-forward/xdp_forward.bpf.o of a build of xdp-tools), with its table of ports filled in; nil
// if none is named.
func (o *offloadBench) xdpForward(b *testing.B) *ebpf.Program {
	b.Helper()
	name := os.Getenv("WEIR_XDP_FORWARD")
	if name == "" {
		return nil
	}
	all, err := ebpf.LoadCollection(name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(all.Close)
	for _, index := range []int{o.p0.Index, o.p1.Index} {
		if err := o.router.Do(func() error { return all.Maps["xdp_tx_ports"].Put(uint32(index), uint32(index)) }); err != nil {
			b.Fatal(err)
		}
	}
	return all.Programs["xdp_fwd_fib_full"]
}

// fastProgram returns the fast path's program for the router's port, not attached.
func (o *offloadBench) fastProgram(b *testing.B, table *xdp.Table) *ebpf.Program {
	b.Helper()
	at, _, err := table.Attach(o.p0.Index, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	info, err := at.(interface{ Info() (*link.Info, error) }).Info()
	if err != nil {
		b.Fatal(err)
	}
	p, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

// run generates and forwards frames, and returns the CPU time per frame in nanoseconds.
func (o *offloadBench) run(b *testing.B, name string, frames uint32) float64 {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		b.Fatal(err)
	}
	one := unix.CPUSet{}
	one.Set(runtime.NumCPU() - 1)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }()
	born := time.Now()
	ran := func() time.Duration {
		times, err := napi.TimesOf(unix.Gettid())
		if errors.Is(err, fs.ErrNotExist) {
			return time.Since(born) // a kernel without schedstat: a guest with an instruction clock and one CPU
		}
		if err != nil {
			b.Fatal(err)
		}
		return times.Ran
	}
	const size = 60
	arrived, before := o.arrived(b), ran()
	err := o.router.Do(func() error {
		_, err := o.programs.Programs["load_source"].Run(&ebpf.RunOptions{Data: make([]byte, size), Repeat: frames, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
			Context: &struct{ Data, End, Meta, Device, Queue, Egress uint32 }{End: size, Device: uint32(o.p0.Index)}})
		return err
	})
	took := ran() - before
	if err != nil && !errors.Is(err, unix.EINTR) {
		b.Fatal(err)
	}
	if name == "nobody" {
		return float64(took.Nanoseconds()) / float64(frames)
	}
	time.Sleep(5 * time.Millisecond)
	n := o.arrived(b) - arrived
	if n < uint64(frames)*999/1000 || n > uint64(frames)*1001/1000 {
		b.Fatalf("%s: %d of %d frames have arrived", name, n, frames)
	}
	return float64(took.Nanoseconds()) / float64(n)
}

// ratios returns the quotients of each round, without the time of base: the median between the ends
// of its 95 % interval, by the order of the rounds' quotients.
func ratios(over, under, base []float64) [3]float64 {
	var all []float64
	for i := range over {
		less := 0.0
		if base != nil {
			less = base[i]
		}
		all = append(all, (over[i]-less)/(under[i]-less))
	}
	slices.Sort(all)
	n := float64(len(all))
	low := max(0, int(n/2-1.96*math.Sqrt(n)/2))
	return [3]float64{all[low], all[len(all)/2], all[len(all)-1-low]}
}
