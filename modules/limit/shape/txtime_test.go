// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/kernel/clock"
)

// A user's departure time is bounded to some milliseconds after the time that the shapers assign,
// so that users can neither fill a device's queue nor save up a limit.
func TestDepartureTimesOfUsers(t *testing.T) {
	b := newBench(t)
	b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 3})
	b.set(3, long(1, 0))
	const ahead, queue = 10 * time.Millisecond, time.Hour
	elsewhere, limited, foreign := datagram(one6, to6, 100), datagram(one4, to4, 100), datagram(one4, to4, 100)
	binary.BigEndian.PutUint16(foreign[12:], 0x88b5) // a local experiment's
	for _, test := range []struct {
		name      string
		frame     []byte
		own, most time.Duration // from now
	}{
		{"of now, without a limit", elsewhere, 0, 0},
		{"soon", elsewhere, ahead / 2, ahead / 2},
		{"in ten minutes", elsewhere, 10 * time.Minute, ahead},
		{"of another clock", elsewhere, 50 * 365 * 24 * time.Hour, ahead},
		{"another protocol's", foreign, 10 * time.Minute, -1},
		{"beyond a limit's queue", limited, 2 * queue, queue + ahead},
		{"within a limit's queue", limited, queue / 2, queue},
	} {
		b.state(3, queue, queue, 2)
		before := clock.Now()
		in, out := context{Tstamp: uint64(before + int64(test.own)), WireLen: 100}, context{}
		_, err := b.p.charge.Run(&ebpf.RunOptions{Data: test.frame, Context: &in, ContextOut: &out, DataOut: make([]byte, 200)})
		if err != nil {
			t.Fatal(err)
		}
		least, most := before+int64(test.most)-int64(time.Second), clock.Now()+int64(test.most)
		if test.most < 0 {
			least, most = 0, 0
		}
		if got := int64(out.Tstamp); got < least || got > most {
			t.Errorf("%s: departs at %d ns, wanted %d to %d", test.name, got, least, most)
		}
	}
}
