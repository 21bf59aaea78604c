// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
	"weir/record/stats"
)

const (
	costRepetitions = 15
	costPackets     = 20_000 // per measurement
	costScopes      = 10_000
	costPayload     = 1000 // octets
)

// costLimit is above every rate that a CPU reaches here.
var costLimit = police.Limit{Rate: police.MaxRate, Loopback: true}

// eachCharged is that limit with the classic algorithm, which charges every packet; egress is
// otherwise the same.
func eachCharged() police.Limit {
	l := costLimit
	l.Classic = true
	return l
}

// BenchmarkLimitCost measures the data plane's time per packet. All variants and an empty program
// run in turn, so that other load of the machine affects all of them. Figures are means over the
// repetitions of the difference to the empty program, ns, with the 95 % interval.
func BenchmarkLimitCost(b *testing.B) {
	testutil.NeedRoot(b)
	b.Run("packet", func(b *testing.B) { costOfPackets(b) })
	b.Run("contention", func(b *testing.B) { costOfContention(b) })
	b.Run("requests", func(b *testing.B) { costOfRequests(b) })

}

// costVariant is a program and its test packet.
type costVariant struct {
	name    string
	program *ebpf.Program
	frame   []byte
}

// costOfPackets runs the programs by BPF_PROG_TEST_RUN. Its packets have a socket that lives as
// long as the call: scopes of TCP are cached with it from the second packet on. UDP uses an
// unconnected socket, which caches the scopes of the cgroup and the user; the others are looked up
// for each packet.
func costOfPackets(b *testing.B) {
	shadow := costLimit
	shadow.Shadow = true
	tcp, udp := costFrame(unix.IPPROTO_TCP), costFrame(unix.IPPROTO_UDP)
	variants := []costVariant{
		{"noop", idleEgress(b), tcp},
		{"0-scopes", costPlane(b, 0, costLimit, 8).egress, tcp},
		{"1-scope", costPlane(b, 1, costLimit, 8).egress, tcp},
		{"4-scopes", costPlane(b, 4, costLimit, 8).egress, tcp},
		{"4-shadow", costPlane(b, 4, shadow, 8).egress, tcp},
	}
	many := costPlane(b, 4, costLimit, costScopes).egress
	few := variants[3].program
	variants = append(variants, costVariant{"4-of-10000", many, tcp},
		costVariant{"4-scopes-udp", few, udp}, costVariant{"4-of-10000-udp", many, udp},
		costVariant{"4-scopes-one-charged", costNear(b).egress, tcp}, costVariant{"4-scopes-each-charged", costPlane(b, 4, eachCharged(), 8).egress, tcp})
	for range b.N {
		took := make([][]float64, len(variants))
		for repetition := range costRepetitions + 1 {
			for i, v := range variants {
				ns := v.run(b)
				if repetition > 0 { // the first warms caches
					took[i] = append(took[i], ns)
				}
			}
		}
		for i, v := range variants[1:] {
			reportDifference(b, v.name, took[i+1], took[0])
		}
		b.ReportMetric(stats.Of(took[0]).Mean, "ns-noop")
		reportRatio(b, "10000-to-8-scopes", took[5], took[3])
		reportRatio(b, "10000-to-8-scopes-udp", took[7], took[6])
	}
	b.ReportMetric(0, "ns/op")
}

// run returns the ns per packet, the minimum of three short runs: an interruption of a run is no
// cost of the program.
func (v costVariant) run(b *testing.B) float64 {
	b.Helper()
	least := math.Inf(1)
	for range 3 {
		verdict, each, err := v.program.Benchmark(v.frame, costPackets, nil)
		if err != nil {
			testutil.Need(b, "BPF_PROG_TEST_RUN of cgroup_skb", err)
		}
		if verdict != 1 {
			b.Fatalf("%s: verdict %d of a packet within its limits", v.name, verdict)
		}
		least = min(least, float64(each))
	}
	return least
}

// reportDifference reports the mean of the differences of alternating measurements.
func reportDifference(b *testing.B, name string, values, base []float64) {
	b.Helper()
	var difference []float64
	for i := range values {
		difference = append(difference, values[i]-base[i])
	}
	e := stats.Of(difference)
	low, high, _ := e.Interval()
	b.ReportMetric(e.Mean, "ns-"+name)
	b.Logf("%s: %.1f ns above a program that does nothing (%.1f to %.1f), median %.0f", name, e.Mean, low, high, median(difference))
}

// reportRatio reports the mean of the ratios of alternating measurements.
func reportRatio(b *testing.B, name string, values, base []float64) {
	b.Helper()
	var ratio []float64
	for i := range values {
		ratio = append(ratio, values[i]/base[i])
	}
	e := stats.Of(ratio)
	low, high, _ := e.Interval()
	b.ReportMetric(e.Mean, name)
	b.Logf("%s: ratio %.4f (%.4f to %.4f), median %.4f of %d", name, e.Mean, low, high, median(ratio), len(ratio))
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

func idleEgress(b *testing.B) *ebpf.Program {
	return idleProgram(b, ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress)
}

// idleProgram does nothing and passes every packet.
func idleProgram(b *testing.B, kind ebpf.ProgramType, hook ebpf.AttachType) *ebpf.Program {
	b.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, AttachType: hook, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	must(b, err)
	b.Cleanup(func() { _ = p.Close() })
	return p
}

// costedPlane is a data plane and its egress program.
type costedPlane struct {
	*police.DataPlane
	group  cgroup.Cgroup
	egress *ebpf.Program
}

// costPlane loads scopes; `apply` of them (at most 4) match the packets of costFrame in this
// process, the others are of remote prefixes.
func costPlane(b *testing.B, apply int, l police.Limit, scopes int) costedPlane {
	b.Helper()
	plane, group := costGroup(b, scopes)
	path, err := cgroup.Root()
	must(b, err)
	root, err := cgroup.Cgroup{Path: path}.ID()
	must(b, err)
	for scope := range scopes {
		must(b, plane.Set(scope, direction.Egress, l))
		switch {
		case scope >= apply:
			other := netip.AddrFrom4([4]byte{172, byte(scope >> 8), byte(scope), 0})
			must(b, plane.AssignPrefix(netip.PrefixFrom(other, 24), scope))
		case scope == 0:
			must(b, plane.AssignCgroup(root, scope))
		case scope == 1:
			must(b, plane.AssignUser(0, scope))
		case scope == 2:
			must(b, plane.AssignPrefix(netip.MustParsePrefix("10.0.0.0/8"), scope))
		default:
			must(b, plane.AssignInterface(1, scope)) // the loopback device, which a test run names
		}
	}
	must(b, plane.Attach(group.Path))
	return costedPlane{plane, group, attached(b, group.Path, ebpf.AttachCGroupInetEgress)}
}

// costNear loads four scopes; one of them charges each packet, like a scope near its limit.
func costNear(b *testing.B) costedPlane {
	b.Helper()
	plane := costPlane(b, 4, costLimit, 8)
	must(b, plane.Set(0, direction.Egress, eachCharged()))
	return plane
}

// costGroup returns an empty data plane and a cgroup to attach it to.
func costGroup(b *testing.B, scopes int) (*police.DataPlane, cgroup.Cgroup) {
	b.Helper()
	group := testutil.Cgroup(b)
	plane, err := police.Load(scopes)
	must(b, err)
	b.Cleanup(func() { _ = plane.Close() })
	return plane, group
}

// attached opens the only program of a cgroup at a hook.
func attached(b *testing.B, path string, hook ebpf.AttachType) *ebpf.Program {
	b.Helper()
	programs := testutil.ProgramsAt(b, path, hook)
	if len(programs) != 1 {
		b.Fatalf("%d programs at %s of %s", len(programs), hook, path)
	}
	p, err := ebpf.NewProgramFromID(programs[0].ID)
	must(b, err)
	b.Cleanup(func() { _ = p.Close() })
	return p
}

// costFrame is a packet from 10.0.0.1 to 10.0.0.2 behind an Ethernet header, without valid
// checksums.
func costFrame(protocol byte) []byte {
	frame := make([]byte, 14+20+20+costPayload)
	binary.BigEndian.PutUint16(frame[12:], unix.ETH_P_IP)
	ip := frame[14:]
	ip[0], ip[1], ip[8], ip[9] = 0x45, 2, 64, protocol // ECT(0)
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	ip[20+12] = 5 << 4 // TCP data offset
	return frame
}

// costOfContention charges every packet to one scope from one CPU and from two at once.
func costOfContention(b *testing.B) {
	if runtime.NumCPU() < 2 {
		testutil.Need(b, "two processors", errors.New("there is one"))
	}
	plane := costPlane(b, 1, eachCharged(), 1)
	noop := costVariant{"noop", idleEgress(b), costFrame(unix.IPPROTO_TCP)}
	one := costVariant{"1-scope", plane.egress, noop.frame}
	for range b.N {
		var alone, both, idle, idleBoth []float64
		packets, retries := uint64(0), uint64(0)
		for range costRepetitions {
			idle = append(idle, onCPUs(b, 1, noop))
			idleBoth = append(idleBoth, onCPUs(b, 2, noop))
			alone = append(alone, onCPUs(b, 1, one))
			before, err := plane.Counters(0, direction.Egress)
			must(b, err)
			both = append(both, onCPUs(b, 2, one))
			after, err := plane.Counters(0, direction.Egress)
			must(b, err)
			packets, retries = packets+after.Packets-before.Packets, retries+after.Retries-before.Retries
		}
		reportDifference(b, "one-processor", alone, idle)
		reportDifference(b, "two-processors", both, idleBoth)
		b.ReportMetric(1000*float64(retries)/float64(packets), "retries/1000-packets")
	}
	b.ReportMetric(0, "ns/op")
}

// onCPUs runs a program on CPUs 0 to n-1 at once and returns the mean ns of a packet.
func onCPUs(b *testing.B, n int, v costVariant) float64 {
	b.Helper()
	took := make([]float64, n)
	var start, done sync.WaitGroup
	start.Add(n)
	for processor := range n {
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread() // the thread ends with the goroutine, because its CPU is fixed
			var set unix.CPUSet
			set.Set(processor)
			err := unix.SchedSetaffinity(0, &set)
			start.Done()
			start.Wait()
			_, each, failed := v.program.Benchmark(v.frame, 5*costPackets, nil)
			if err := errors.Join(err, failed); err != nil {
				b.Error(err)
			}
			took[processor] = float64(each)
		}()
	}
	done.Wait()
	return stats.Of(took).Mean
}
