// SPDX-License-Identifier: Apache-2.0

package station

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ProbePayload is the octets of a probe: with headers it is as small as an acknowledgement or a
	// query for a name, which limits that drop by size spare.
	ProbePayload = 32
	// probePatience is how long the last probes are waited for: longer than any queue is that still
	// lets small packets pass.
	probePatience = 500 * time.Millisecond
)

// Echo is one probe. It was sent at At, of CLOCK_MONOTONIC, and was back RTT later; 0 if never.
type Echo struct {
	At  time.Duration `json:"at"`
	RTT time.Duration `json:"rtt,omitempty"`
}

// probes are those of one near station. It is safe for concurrent use.
type probes struct {
	mu   sync.Mutex
	sent []Echo
	open int // that are not back
}

// send sends them at rate bit/s of payload until stop is closed, and waits for the last ones.
func (p *probes) send(rate float64, write func([]byte) error, stop <-chan struct{}) error {
	err := pace(rate, ProbePayload, stop, func() error { return p.one(write) })
	for end := time.Now().Add(probePatience); err == nil && time.Now().Before(end) && p.waiting(); {
		time.Sleep(time.Millisecond)
	}
	return err
}

// one sends one. What the kernel refuses is lost like what is lost on its way.
func (p *probes) one(write func([]byte) error) error {
	now, err := Monotonic()
	if err != nil {
		return err
	}
	p.mu.Lock()
	n := len(p.sent)
	p.sent, p.open = append(p.sent, Echo{At: now}), p.open+1
	p.mu.Unlock()
	b := make([]byte, ProbePayload)
	binary.BigEndian.PutUint64(b, uint64(n))
	_ = write(b)
	return nil
}

func (p *probes) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > 0
}

// back notes that a probe has come back; a second copy of it changes nothing.
func (p *probes) back(b []byte) {
	now, err := Monotonic()
	if err != nil || len(b) != ProbePayload {
		return
	}
	n := binary.BigEndian.Uint64(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n >= uint64(len(p.sent)) || p.sent[n].RTT != 0 {
		return
	}
	p.sent[n].RTT, p.open = max(now-p.sent[n].At, 1), p.open-1
}

func (p *probes) all() []Echo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// Monotonic reads the clock that probes go by, which all processes of a host share
// (CLOCK_MONOTONIC, clock_gettime(2)).
func Monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read monotonic clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
