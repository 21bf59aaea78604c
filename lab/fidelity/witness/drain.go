// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"context"
	"fmt"
	"time"

	"weir/internal/wait"
	"weir/kernel/rtnl"
	"weir/lab/link"
)

// Links are drained when nothing is inside, nothing has come for a while, and what has left them
// has arrived: hosts receive in threads of their own, which a busy machine keeps waiting.
const (
	drainLook   = 10 * time.Millisecond
	drainMore   = 2 * time.Second
	arriveLooks = 100 // without any arrival; what has not come then is lost
)

// Drain waits until the links are empty: at most as long as their queues and delays hold frames,
// and drainMore.
func (w *Witness) Drain(ctx context.Context) (empty bool, err error) {
	if w.bed.Carrying == nil {
		return true, wait.For(ctx, drainLook) // a veth hands over at once
	}
	longest := drainMore
	for _, l := range w.bed.Links {
		longest += inside(l.Forward) + inside(l.Reverse)
	}
	var before, missing uint64
	quiet, same := 0, 0 // looks
	for begin := time.Now(); time.Since(begin) < longest; {
		held, received, err := w.held()
		if err != nil {
			return false, err
		}
		if quiet++; held > 0 || received != before {
			quiet, before = 0, received
		}
		if quiet >= 2 {
			now, err := w.underWay()
			if err != nil {
				return false, err
			}
			if same++; now != missing {
				missing, same = now, 0
			}
			if same > 0 && missing == 0 || same >= arriveLooks {
				return true, nil
			}
		}
		if err := wait.For(ctx, drainLook); err != nil {
			return false, err
		}
	}
	return quiet >= 2, nil
}

// held is how many frames are inside the links, and how many ever came.
func (w *Witness) held() (held, received uint64, err error) {
	status, err := w.bed.Carrying.Status()
	if err != nil {
		return 0, 0, fmt.Errorf("wait for empty links: %w", err)
	}
	for _, s := range status {
		held += s.Forward.Held + s.Reverse.Held
		received += s.Forward.Received + s.Reverse.Received
	}
	return held, received, nil
}

// underWay is how many frames have left the links and not come to the devices that they go to.
// Devices may have counted others before there were links, so the fewest of each that ever seemed
// under way count as none.
func (w *Witness) underWay() (frames uint64, err error) {
	arrived, err := w.arrived() // before what was sent, so that none seems to come too early
	if err != nil {
		return 0, err
	}
	status, err := w.bed.Carrying.Status()
	if err != nil {
		return 0, fmt.Errorf("wait for frames to arrive: %w", err)
	}
	if w.fewest == nil {
		w.fewest = map[End]int64{}
	}
	n := 0
	for _, l := range w.bed.Links {
		if !l.Emulated || n >= len(status) {
			continue
		}
		for end, sent := range map[End]uint64{l.B: status[n].Forward.Sent, l.A: status[n].Reverse.Sent} {
			came, there := arrived[end]
			if !there {
				continue // the configuration says that it is gone
			}
			now := int64(sent - came)
			fewest, known := w.fewest[end]
			if !known || now < fewest {
				w.fewest[end] = now
			} else {
				frames += uint64(now - fewest)
			}
		}
		n++
	}
	return frames, nil
}

// arrived is what the devices at the emulated links' ends have received, those that there are.
func (w *Witness) arrived() (map[End]uint64, error) {
	received := make([]map[string]rtnl.Traffic, len(w.bed.Places))
	err := w.eachPlace(func(i int, p Place) error {
		conn, err := rtnl.Open(p.Namespace)
		if err != nil {
			return fmt.Errorf("count arrivals at %s: %w", p.Name, err)
		}
		defer conn.Close()
		if received[i], err = conn.AllTraffic(); err != nil {
			return fmt.Errorf("count arrivals at %s: %w", p.Name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := map[End]uint64{}
	for i, p := range w.bed.Places {
		for device, traffic := range received[i] {
			all[End{p.Name, device}] = traffic.ReceivedPackets
		}
	}
	return all, nil
}

// inside is how long a frame may be inside a direction: its delay with jitter, and a full queue.
func inside(d link.Direction) time.Duration {
	return d.Peak().Delay + 4*d.Jitter + queueTime(d)
}

// queueTime is how long a full queue takes; a second where it has no limit.
func queueTime(d link.Direction) time.Duration {
	if d.Rate == 0 {
		return 0
	}
	octets := float64(d.Queue.Bytes)
	if packets := float64(d.Queue.Packets) * 1538; octets == 0 || packets > 0 && packets < octets {
		octets = packets
	}
	if octets == 0 {
		return time.Second
	}
	return time.Duration(octets*8/float64(d.Slowest())*1e9) + 2*d.Cycle()
}
