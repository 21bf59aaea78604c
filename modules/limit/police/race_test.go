// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/clock"
	"weir/kernel/testutil"
)

// The credit of the LPC 2018 talk was read, changed and written back, so that racing CPUs lost
// charges. These tests race for one scope on all CPUs and compare its virtual queue with the sum of
// the admitted packets per CPU, to the nanosecond.

const (
	raceRounds = 50   // at most, until two CPUs have met at the queue
	raceRuns   = 5000 // packets per CPU and round
)

// raceLimit has a queue of up to a minute and marks nothing. At its rates a byte costs whole
// nanoseconds.
func raceLimit(rate units.BitRate) Limit {
	return Limit{Rate: rate, Burst: time.Millisecond, Mark: 59 * time.Second, Drop: time.Minute, Reserve: time.Millisecond, Loopback: true}
}

// finish returns the virtual finish time of the scope at egress.
func finish(t *testing.T, p *DataPlane, scope int) int64 {
	t.Helper()
	var state limitLimitState
	if err := p.objects.LimitStates.Lookup(uint32(2*scope), &state); err != nil {
		t.Fatal(err)
	}
	return state.FinishNs
}

// fill sets the length of the egress queue of a scope and returns the finish time. No packet may
// pass meanwhile.
func fill(t *testing.T, p *DataPlane, scope int, queue time.Duration) int64 {
	t.Helper()
	return fillAt(t, p, scope, Egress, queue)
}

func fillAt(t *testing.T, p *DataPlane, scope int, direction Direction, queue time.Duration) int64 {
	t.Helper()
	var state limitLimitState
	index := uint32(2*scope) + uint32(direction)
	if err := p.objects.LimitStates.Lookup(index, &state); err != nil {
		t.Fatal(err)
	}
	state.FinishNs = clock.Now() + int64(queue)
	if err := p.objects.LimitStates.Put(index, &state); err != nil {
		t.Fatal(err)
	}
	return state.FinishNs
}

// onEveryCPU runs f on all CPUs at once, and fails the test with its error.
func onEveryCPU(t *testing.T, f func(processor int) error) {
	t.Helper()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	if allowed.Count() < 2 {
		testutil.Need(t, "cpu-affinity", errors.New("one processor alone"))
	}
	var all, ready sync.WaitGroup
	results := make([]error, allowed.Count())
	for cpu, place := 0, 0; place < len(results); cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		ready.Add(1)
		all.Add(1)
		go func(place int) {
			defer all.Done()
			runtime.LockOSThread() // never unlocked: the thread is bound to one CPU and ends here
			var one unix.CPUSet
			one.Set(cpu)
			err := errors.Join(unix.SchedSetaffinity(0, &one), withoutSignals())
			ready.Done()
			ready.Wait()
			if err == nil {
				err = f(place)
			}
			results[place] = err
		}(place)
		place++
	}
	all.Wait()
	if err := errors.Join(results...); err != nil {
		t.Fatal(err)
	}
}

// withoutSignals blocks signals of the runtime in the thread: a signal restarts a test run of many
// packets, and the packets before it would have no verdict.
func withoutSignals() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	return unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil)
}

// raced counts the admitted and dropped packets of one CPU by verdicts.
type raced struct {
	admitted, refused uint64 // packets
	octets            uint64 // admitted
	_                 [40]byte
}

// race sends packets on every CPU, each with its own size, and sums the verdicts. With repeat above
// one the kernel sends that many per verdict; all must pass.
func race(t *testing.T, program *ebpf.Program, runs, repeat int) (sum raced) {
	t.Helper()
	all := make([]raced, runtime.NumCPU())
	frames := make([][]byte, len(all))
	for i := range frames {
		frames[i] = datagram(t, false, 0, payload4-i)
	}
	onEveryCPU(t, func(i int) error {
		for range runs {
			verdict, err := program.Run(&ebpf.RunOptions{Data: frames[i], Repeat: uint32(repeat)})
			switch {
			case err != nil:
				return err
			case verdict == pass:
				all[i].admitted += uint64(repeat)
				all[i].octets += uint64(repeat * len(frames[i]))
			case verdict == reject && repeat == 1:
				all[i].refused++
			default:
				return fmt.Errorf("verdict %d", verdict)
			}
		}
		return nil
	})
	for _, one := range all {
		sum.admitted += one.admitted
		sum.refused += one.refused
		sum.octets += one.octets
	}
	return sum
}

// needRace skips the test if no CPUs met.
func needRace(t *testing.T, retries uint64) {
	t.Helper()
	if retries == 0 {
		testutil.Need(t, "cpu-affinity", fmt.Errorf("no two of %d processors have charged the scope at once; do they share one of the machine below?",
			runtime.NumCPU()))
	}
	t.Logf("%d charges were tried again", retries)
}

func TestRacingCPUsLoseNoCharge(t *testing.T) {
	p := plane(t, 1)
	const rate, cost = 8_000_000_000, 1 // ns of an octet
	if err := p.Set(0, Egress, raceLimit(rate)); err != nil {
		t.Fatal(err)
	}
	const runs, repeat = 4, 20_000
	for round := 0; round < raceRounds && counters(t, p, 0).Retries == 0; round++ {
		before, start := counters(t, p, 0), fill(t, p, 0, 10*time.Second)
		sent := race(t, p.objects.LimitEgress, runs, repeat)
		if moved := finish(t, p, 0) - start; moved != int64(sent.octets)*cost {
			t.Fatalf("%d octets were admitted and %d charged", sent.octets, moved/cost)
		}
		after := counters(t, p, 0)
		if n, octets := after.Packets-before.Packets, after.Bytes-before.Bytes; n != sent.admitted || octets != sent.octets || after.Dropped > 0 {
			t.Fatalf("counted %d packets of %d octets and %d refused, want %d of %d and none", n, octets, after.Dropped, sent.admitted, sent.octets)
		}
	}
	needRace(t, counters(t, p, 0).Retries)
}

// full returns the length of a queue that admits one more packet per packet time; its end is for
// small packets.
func full(l Limit) time.Duration { return l.Drop - l.Reserve }

// A full queue drains in real time: the CPUs together admit at most the elapsed time, plus one
// packet per CPU after failed compare-and-swaps.
func TestRacingCPUsAdmitNoMoreThanTheRate(t *testing.T) {
	p := plane(t, 1)
	untilDropped(t, p, func(l Limit, cost int64) bool {
		if err := p.Set(0, Egress, l); err != nil {
			t.Fatal(err)
		}
		start := fill(t, p, 0, full(l))
		sent := race(t, p.objects.LimitEgress, raceRuns, 1)
		if moved := finish(t, p, 0) - start; moved != int64(sent.octets)*cost {
			t.Fatalf("%d octets were admitted and %d charged", sent.octets, moved/cost)
		}
		most := clock.Now() - (start - int64(full(l))) + int64(runtime.NumCPU())*1000*cost
		if charged := int64(sent.octets) * cost; charged > most {
			t.Fatalf("octets of %s were admitted, at most %s are allowed", time.Duration(charged), time.Duration(most))
		}
		return sent.refused > 0
	})
}

// The first scope refunds drops of the second while other CPUs charge it.
func TestRacingCPUsRefundExactly(t *testing.T) {
	p := plane(t, 2)
	if err := p.AssignPrefix(netip.MustParsePrefix("10.0.0.0/8"), 1); err != nil {
		t.Fatal(err)
	}
	untilDropped(t, p, func(l Limit, cost int64) bool {
		if err := errors.Join(p.Set(0, Egress, l), p.Set(1, Egress, l)); err != nil {
			t.Fatal(err)
		}
		start := [2]int64{fill(t, p, 0, 10*time.Second), fill(t, p, 1, full(l))}
		sent := race(t, p.objects.LimitEgress, raceRuns, 1)
		for scope, from := range start {
			if moved := finish(t, p, scope) - from; moved != int64(sent.octets)*cost {
				t.Fatalf("scope %d: %d octets were admitted and %d charged", scope, sent.octets, moved/cost)
			}
		}
		if inner, outer := counters(t, p, 0), counters(t, p, 1); inner.Dropped > 0 || inner.Bytes != outer.Bytes {
			t.Fatalf("the inner scope refused %d and counted %d octets, the outer %d", inner.Dropped, inner.Bytes, outer.Bytes)
		}
		return sent.refused > 0
	})
}

// untilDropped races until a round has drops and CPUs that met. A round gets a limit and the cost
// of a byte in ns, and reports drops; without, the next round has a quarter of the rate.
func untilDropped(t *testing.T, p *DataPlane, round func(l Limit, cost int64) bool) {
	t.Helper()
	refused, cost := false, int64(80) // 100 Mbit/s
	for n := 0; n < raceRounds && (!refused || counters(t, p, 0).Retries == 0); n++ {
		l := raceLimit(units.BitRate(8e9 / cost))
		if now := round(l, cost); now {
			refused = true
		} else if l.Rate/4 >= MinRate {
			cost *= 4
		}
	}
	if !refused {
		t.Fatal("no packet was refused: the load does not tell what is to be compared")
	}
	needRace(t, counters(t, p, 0).Retries)
}
