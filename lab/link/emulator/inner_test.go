// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/kernel/xsk"
	"weir/lab/link"
	"weir/lab/link/loss"
	"weir/lab/link/rawsock"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Both holds return frames sorted by departure, and in order of arrival for equal departures.
func TestHoldAgainstSorting(t *testing.T) {
	random := testutil.Rand(t)
	for _, ordered := range []bool{false, true} {
		const most = 100
		h := newHold(ordered, most)
		var want []held
		clock, number := int64(0), uint64(0)
		for range 20000 {
			if random.IntN(2) == 0 && len(want) < most {
				at := clock + random.Int64N(5)
				if ordered {
					clock = at
				}
				number++
				if !h.push(at, xsk.Desc{Addr: number}) {
					t.Fatalf("a hold of %d frames took no more than %d", most, len(want))
				}
				want = append(want, held{at: at, number: number, frame: xsk.Desc{Addr: number}})
				slices.SortStableFunc(want, func(a, b held) int { return int(a.at - b.at) })
			} else if len(want) > 0 {
				if h.next() != want[0].at {
					t.Fatalf("the next departure is %d, want %d", h.next(), want[0].at)
				}
				if got := h.pop(); got != want[0] {
					t.Fatalf("got %+v, want %+v", got, want[0])
				}
				want = want[1:]
			}
			if h.len() != len(want) {
				t.Fatalf("%d frames are held, want %d", h.len(), len(want))
			}
		}
	}
	if h := newHold(false, 1); h.next() != math.MaxInt64 || !h.push(1, xsk.Desc{}) || h.push(2, xsk.Desc{}) {
		t.Error("a heap for one frame does not hold exactly one")
	}
}

func TestChainsAreReleasedCopiedAndDamagedWhole(t *testing.T) {
	umem, err := xsk.NewUmem(8, 4096)
	must(t, err)
	defer func() { must(t, umem.Close()) }()
	s := newStore(umem, true)
	var parts []xsk.Desc
	for i := range 3 {
		addr, _ := umem.Take()
		d := xsk.Desc{Addr: addr + 256, Len: 1000, Flags: xsk.Continues}
		if i == 2 {
			d.Flags = 0
		}
		for k := range umem.Bytes(d) {
			umem.Bytes(d)[k] = byte(i*1000 + k)
		}
		if i > 0 {
			s.chain(parts[i-1], d)
		}
		parts = append(parts, d)
	}
	if octets, count := s.length(parts[0]); octets != 3000 || count != 3 {
		t.Errorf("the frame has %d bytes in %d parts", octets, count)
	}
	twin, ok := s.copy(parts[0])
	if !ok || umem.Available() != 2 {
		t.Fatalf("copied: %v, %d buffers are left", ok, umem.Available())
	}
	s.damage(parts[0], 8*(2500-14)+3)
	differences := 0
	for a, b := parts[0], twin; ; a, b = s.follow(a), s.follow(b) {
		for k := range umem.Bytes(a) {
			if x := umem.Bytes(a)[k] ^ umem.Bytes(b)[k]; x != 0 {
				differences++
				if a != parts[2] || k != 500 || x != 0x10 {
					t.Errorf("octet %d of %+v differs by %#x", k, a, x)
				}
			}
		}
		if !continues(a) {
			break
		}
	}
	if differences != 1 {
		t.Errorf("%d bytes were damaged", differences)
	}
	if _, ok := s.copy(parts[0]); ok || umem.Available() != 2 {
		t.Errorf("a frame of 3 parts was copied into 2 buffers; %d are left", umem.Available())
	}
	s.release(parts[0])
	s.release(twin)
	if umem.Available() != 8 {
		t.Errorf("%d buffers of 8 came back", umem.Available())
	}
}

func TestOrdersTravelExactly(t *testing.T) {
	want := link.Direction{
		Rate: 1_234_567_891, Delay: 7, Jitter: 3, Shape: link.Pareto, KeepOrder: true, Reorder: 0.1, Duplicate: 0.2, Corrupt: 1e-9,
		Loss:  loss.Of(loss.Gilbert{P: 0.01, R: 0.25, H: 0.3, K: 0.999}),
		Queue: link.Queue{Bytes: 12_500_001, Packets: 7, ECN: 65_537}, Seed: math.MaxUint64,
	}
	text, err := json.Marshal(orderOf(want))
	must(t, err)
	var got directionOrder
	must(t, json.Unmarshal(text, &got))
	if diff := cmp.Diff(want, got.direction()); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryFitsTheFrames(t *testing.T) {
	fast := link.Direction{Rate: 1e9, Delay: 50 * time.Millisecond, Queue: link.Queue{Bytes: 12.5e6}}
	roomy := budget{most: 1 << 30, spare: 128 << 20, ring: ringSize}
	s, err := sizeOf(link.Cable{Forward: fast, Reverse: fast}, 1500, roomy)
	must(t, err)
	const full = 2 * (6_250_000 + 12_500_000) / 1538
	if s.buffers < full+2*ringSize || s.size != 2048 || s.jumbo {
		t.Errorf("%+v for %d frames of full size and the rings", s, full)
	}
	if _, err := sizeOf(link.Cable{Forward: fast, Reverse: fast}, 1500, budget{most: 16 << 20, ring: 1024}); fault.Of(err) != fault.Testbed {
		t.Errorf("18 MB of frames went into 16 MiB: %v", err)
	}
	if s, err := sizeOf(link.Cable{}, 9000, roomy); err != nil || !s.jumbo || s.size != 4096 {
		t.Errorf("MTU 9000: %+v, %v", s, err)
	}
	if _, err := sizeOf(link.Cable{}, 30000, roomy); fault.Of(err) != fault.Usage {
		t.Errorf("MTU 30000: %v", err)
	}
}

// lab is an opened cable; the test acts as its thread.
func lab(t *testing.T, forward, reverse link.Direction) (c *cable, a, b *rawsock.Socket) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "AF_XDP", probe.AFXDP())
	carrier := testutil.Namespace(t, "carrier")
	conn, err := rtnl.Open(carrier)
	must(t, err)
	t.Cleanup(conn.Close)
	host := func(end string) *rawsock.Socket {
		ns := testutil.Namespace(t, end)
		must(t, conn.AddVeth("end-"+end, ns, "host", 0))
		must(t, conn.SetUp("end-"+end))
		must(t, link.PrepareCarrierEnd(carrier, "end-"+end))
		must(t, bringUp(ns))
		must(t, link.Prepare(ns, "host"))
		s, err := rawsock.Open(ns, "host", 0x88b5)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b = host("a"), host("b")
	c, err = openCable(carrier, cableOrder{
		Name: "cable", A: "end-a", B: "end-b", Forward: orderOf(forward), Reverse: orderOf(reverse),
		Buffers: 8192, BufferSize: 2048, Ring: 2048, // a host's queue and device may send all their frames at once
	}, 0)
	must(t, err)
	t.Cleanup(c.close)
	return c, a, b
}

func bringUp(ns *netns.Namespace) error {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.SetUp("host")
}

var frame = append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 100)...)

// No step of the loop allocates, with every impairment active.
func TestInnerLoopAllocatesNothing(t *testing.T) {
	everything := link.Direction{
		Rate: 1e9, Delay: 50 * time.Microsecond, Jitter: 20 * time.Microsecond, Reorder: 0.1, Duplicate: 0.2, Corrupt: 0.2, Seed: 1,
		Loss:  loss.Of(loss.Gilbert{P: 0.1, R: 0.3, K: 0.99}),
		Queue: link.Queue{Bytes: 1e6, ECN: 500},
	}
	for name, d := range map[string]link.Direction{"all": everything, "plain": {}} {
		c, a, b := lab(t, d, d)
		before := c.ways[0].counters
		if n := testing.AllocsPerRun(500, func() {
			must(t, a.Send(t.Context(), frame))
			must(t, b.Send(t.Context(), frame))
			if busy, now := c.step(); !busy {
				c.wait(now)
			}
			c.publish(0)
		}); n != 0 {
			t.Errorf("%s: %v allocations per step", name, n)
		}
		if now := c.ways[0].counters; now.Received-before.Received < 400 || now.Sent == 0 {
			t.Errorf("%s: the loop did not move frames: %+v", name, now)
		}
	}
}

// Each received frame was sent, dropped, lost or is held, and every buffer is accounted for.
func TestFramesAndBuffersAreAccountedFor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	d := link.Direction{
		Rate: 100e3, Delay: time.Millisecond, Jitter: 500 * time.Microsecond, Duplicate: 0.1, Seed: 9,
		Loss:  loss.Of(loss.Independent{Probability: 0.2}),
		Queue: link.Queue{Packets: 200},
	}
	c, a, b := lab(t, d, link.Direction{Delay: time.Millisecond})
	for range 2000 {
		must(t, a.Send(t.Context(), frame[:60+random.IntN(50)]))
		must(t, b.Send(t.Context(), frame))
		c.step()
	}
	testutil.Eventually(t, 10*time.Second, "an empty cable", func() bool {
		for range 100 {
			c.step()
		}
		return c.ways[0].hold.len()+c.ways[1].hold.len()+c.sockets[0].Outstanding()+c.sockets[1].Outstanding() == 0 &&
			c.ways[0].counters.Received >= 2000 && c.ways[1].counters.Received >= 2000
	})
	for i, w := range c.ways {
		n := w.counters
		if n.Received+n.Duplicated != n.Sent+n.QueueDrops+n.LossDrops || n.Overruns != 0 || w.lateness.Count() != n.Sent {
			t.Errorf("way %d: %+v, lateness of %d frames", i, n, w.lateness.Count())
		}
	}
	if n := c.ways[0].counters; n.QueueDrops == 0 || n.LossDrops == 0 || n.Duplicated == 0 {
		t.Errorf("something did not happen: %+v", n)
	}
	if have := c.umem.Available() + c.sockets[0].Filled() + c.sockets[1].Filled(); have != c.umem.Count() {
		t.Errorf("%d of %d buffers are accounted for", have, c.umem.Count())
	}
}
