// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"testing"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/rawsock"
)

// late is a carrier that says of frames that they have left, and sends them some looks later.
type late struct {
	link.Carrying
	t     *testing.T
	from  *rawsock.Socket
	sent  uint64
	looks int // at it
	sends int // at which look they are sent; 0 for never
}

func (l *late) Status() ([]link.Status, error) {
	if l.looks++; l.looks == l.sends {
		for range l.sent {
			must(l.t, l.from.Send(l.t.Context(), make([]byte, 60)))
		}
	}
	return []link.Status{{Forward: link.Counters{Received: l.sent, Sent: l.sent}}}, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ends are a link's ends, and a socket at the device from which frames come to the second.
func ends(t *testing.T) (a, b Place, from *rawsock.Socket, conn *rtnl.Conn) {
	t.Helper()
	testutil.NeedRoot(t)
	spaces := [2]*netns.Namespace{testutil.Namespace(t, "a"), testutil.Namespace(t, "b")}
	for i, ns := range spaces {
		made, err := rtnl.Open(ns)
		must(t, err)
		t.Cleanup(made.Close)
		if i == 0 {
			must(t, made.AddVeth("dev", spaces[1], "dev", 0))
		}
		must(t, made.SetUp("dev"))
		must(t, link.Silence(ns, "dev"))
		conn = made
	}
	from, err := rawsock.Open(spaces[0], "dev", rawsock.None)
	must(t, err)
	t.Cleanup(func() { _ = from.Close() })
	return Place{Name: "a", Namespace: spaces[0]}, Place{Name: "b", Namespace: spaces[1]}, from, conn
}

func TestDrainWaitsForArrivals(t *testing.T) {
	for name, sends := range map[string]int{"late": 20, "lost": 0} {
		t.Run(name, func(t *testing.T) {
			a, b, from, conn := ends(t)
			carrier := &late{t: t, from: from}
			w := &Witness{bed: Testbed{Places: []Place{a, b}, Carrying: carrier,
				Links: []Link{{Name: "path", Emulated: true, A: End{"a", "dev"}, B: End{"b", "dev"}}}}}
			if n, err := w.underWay(); err != nil || n != 0 {
				t.Fatalf("%d frames are under way of none: %v", n, err)
			}
			before, err := conn.Traffic("dev")
			must(t, err)
			carrier.sent, carrier.looks, carrier.sends = 5, 0, sends
			empty, err := w.Drain(t.Context())
			must(t, err)
			after, err := conn.Traffic("dev")
			must(t, err)
			if !empty {
				t.Error("the link is empty, and Drain says that it is not")
			}
			came := after.ReceivedPackets - before.ReceivedPackets
			if sends > 0 && came != carrier.sent {
				t.Errorf("%d frames had arrived of %d when Drain returned", came, carrier.sent)
			}
			if sends == 0 && carrier.looks < arriveLooks {
				t.Errorf("frames that did not come were looked for %d times only", carrier.looks)
			}
		})
	}
}
