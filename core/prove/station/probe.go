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
	// ProbePayload is the payload of a probe in bytes: with headers it is as small as an
	// acknowledgement or a DNS query, which limits that drop by size spare.
	ProbePayload = 32
	// probePatience is the maximum wait for the last probes. It exceeds the delay of every queue
	// that still passes small packets.
	probePatience = 500 * time.Millisecond
)

// Echo is one probe, sent at At (CLOCK_MONOTONIC) and returned after RTT; 0 if it was lost.
type Echo struct {
	At  time.Duration `json:"at"`
	RTT time.Duration `json:"rtt,omitempty"`
}

// probes holds the probes of one near station. It is safe for concurrent use.
type probes struct {
	mu   sync.Mutex
	sent []Echo
	open int // not returned yet
}

// send sends probes at rate bit/s of payload until stop is closed, and waits for the last ones.
func (p *probes) send(rate float64, write func([]byte) error, stop <-chan struct{}) error {
	err := pace(rate, ProbePayload, stop, func() error { return p.one(write) })
	for end := time.Now().Add(probePatience); err == nil && time.Now().Before(end) && p.waiting(); {
		time.Sleep(time.Millisecond)
	}
	return err
}

// one sends one probe. A probe rejected by the kernel counts as lost.
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

// back records the return of a probe; a second copy changes nothing.
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

// Monotonic returns the time on the clock of probes, which all processes of a host share
// (CLOCK_MONOTONIC, clock_gettime(2)).
func Monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read monotonic clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
