// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/tc"
	"weir/lab/scenario"
	"weir/lab/topology"
)

// Settings of the token bucket, which favour it over the defaults of tc(8):
//
//   - Burst: 1 ms at the rate, at least 10 packets. tc defaults to one packet with high-resolution
//     timers, which costs a timer per packet.
//   - Quantum: a tenth of the rate in byte/s (r2q 10, as in tc), between a packet and 200000, above
//     which the kernel warns. It has no effect with a single class.
//   - Queue: 1000 packets, the usual txqueuelen and tc's default for a pfifo. fq_codel has the
//     defaults of the kernel (RFC 8290: target 5 ms, interval 100 ms, 1024 flows, 10240 packets)
//     and marks ECN-capable packets.
const (
	packet     = 1514
	burst      = 1e-3 // seconds
	minBurst   = 10 * packet
	r2q        = 10
	maxQuantum = 200_000
	waiting    = 1000 // packets
)

// queue is a token bucket at a device.
type queue struct {
	conn   *tc.Conn
	device string
}

// leafOf is the kind of queue inside the token bucket.
func leafOf(m scenario.Mechanism) string {
	if m == scenario.HTBFqCodel {
		return "fq_codel"
	}
	return "pfifo"
}

func newQueue(l scenario.Limit, built *topology.Topology) (*queue, error) {
	q := &queue{device: deviceOf(l, built)}
	conn, err := tc.Open(built.Nodes[l.Host])
	if err != nil {
		return nil, err
	}
	q.conn = conn
	if err := q.install(l); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// install replaces the device's queue.
func (q *queue) install(l scenario.Limit) error {
	root, class := tc.MakeHandle(1, 0), tc.MakeHandle(1, 1)
	if err := q.conn.Delete(q.device, tc.Place{}); err != nil && !none(err) {
		return err
	}
	if err := q.conn.AddHTB(q.device, tc.Place{Handle: root}, 1); err != nil {
		return err
	}
	spec := tc.HTBClass{
		Rate:    l.Rate,
		Burst:   units.ByteSize(max(minBurst, burst*float64(l.Rate)/8)),
		Quantum: uint32(min(max(l.Rate/8/r2q, packet), maxQuantum)),
	}
	if err := q.conn.AddHTBClass(q.device, root, class, spec); err != nil {
		return err
	}
	at := tc.Place{Parent: class, Handle: tc.MakeHandle(2, 0)}
	if leafOf(l.Mechanism) == "fq_codel" {
		return q.conn.AddFqCodel(q.device, at, tc.FqCodelSpec{ECN: true})
	}
	return q.conn.AddPfifo(q.device, at, waiting)
}

// none says that there was no queue but the kernel's own, which cannot be deleted.
func none(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist)
}

func (q *queue) read(l scenario.Limit) (Status, error) {
	all, err := q.conn.List(q.device)
	if err != nil {
		return Status{}, err
	}
	for _, qdisc := range all {
		if qdisc.Kind == "htb" {
			return Status{Limit: l, Packets: qdisc.Packets, Bytes: qdisc.Bytes, Refused: qdisc.Drops}, nil
		}
	}
	return Status{}, fmt.Errorf("device %s has no htb any more", q.device)
}

func (q *queue) close() { q.conn.Close() }
