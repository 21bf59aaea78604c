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

// Links are drained if they are empty, idle for a while, and their frames have arrived: hosts
// receive in threads that may be late on a busy machine.
const (
	drainLook   = 10 * time.Millisecond
	drainMore   = 2 * time.Second
	arriveLooks = 100 // without any arrival; missing frames then count as lost
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
	quiet, same := 0, 0 // polls
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

// held returns the frames inside the links, and all received ones.
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
	arrived, err := w.arrived() // before the sent counters, so that no frame seems early
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
				continue // reported by the configuration
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

// arrived returns the frames received by the existing devices at the ends of emulated links.
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

// inside returns the maximum time of a frame in a direction: delay, jitter and a full queue.
func inside(d link.Direction) time.Duration {
	return d.Peak().Delay + 4*d.Jitter + queueTime(d)
}

// queueTime returns the time of a full queue; one second without a limit.
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
