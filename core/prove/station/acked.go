// SPDX-License-Identifier: Apache-2.0

package station

import (
	"encoding/binary"
	"sync"
	"time"
)

// ackOctets is the payload of an acknowledgement: the number of the datagram.
const ackOctets = 8

// acked is the sender of a flow like QUIC: numbered datagrams, each acknowledged,
// congestion-controlled and paced. It is safe for concurrent use.
type acked struct {
	mu      sync.Mutex
	control control
	count   uint64        // datagrams sent
	wake    chan struct{} // holds one element after an acknowledgement
}

func newAcked() *acked { return &acked{control: newControl(), wake: make(chan struct{}, 1)} }

// send sends until stop is closed, and waits for the last acknowledgements. A datagram rejected by
// the kernel counts as lost.
func (a *acked) send(write func([]byte) error, stop <-chan struct{}) error {
	b := make([]byte, Payload)
	for {
		number, wait := a.next()
		if wait > 0 {
			if a.pause(wait, stop) {
				break
			}
			continue
		}
		select {
		case <-stop:
			return a.drain()
		default:
		}
		binary.BigEndian.PutUint64(b, number)
		_ = write(b)
	}
	return a.drain()
}

// next returns the number of the next datagram, or the time to wait.
func (a *acked) next() (number uint64, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if wait := a.control.wait(now); wait > 0 {
		return 0, wait
	}
	a.count++
	return a.control.send(now), 0
}

// pause waits for an acknowledgement, the time or the end, and reports the end.
func (a *acked) pause(wait time.Duration, stop <-chan struct{}) (ended bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-stop:
		return true
	case <-a.wake:
	case <-timer.C:
	}
	return false
}

// drain waits until no datagram is in flight.
func (a *acked) drain() error {
	for end := time.Now().Add(probePatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		a.mu.Lock()
		idle := a.control.flying() == 0
		a.mu.Unlock()
		if idle {
			break
		}
	}
	return nil
}

// back processes an acknowledgement.
func (a *acked) back(b []byte) {
	a.mu.Lock()
	a.control.acknowledge(binary.BigEndian.Uint64(b), time.Now())
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *acked) octets() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count * Payload
}
