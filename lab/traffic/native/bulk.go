// SPDX-License-Identifier: Apache-2.0

package native

import (
	"os"
	"time"

	"weir/internal/units"
)

const (
	// writeSize is what one write call of a bulk sender hands over, in octets.
	writeSize = 256 << 10
	// readSize is the most that one read call takes out of a receive buffer, in octets.
	readSize = 1 << 20
	// pacedFor is how much time one write of a rate-limited sender covers.
	pacedFor = 5 * time.Millisecond
	// pacedMin keeps a slow sender's writes from becoming tiny segments, in octets.
	pacedMin = 1448
)

// blank is the payload of everything sent over TCP. It is never written to.
var blank = make([]byte, writeSize)

// send writes until the flow is over, the limit is reached or the connection breaks.
func (s *session) send(c *connection) error {
	limited, left := s.flow.Bytes > 0, uint64(s.flow.Bytes)
	pace := newPacer(s.flow.Rate/units.BitRate(s.flow.Streams), time.Now())
	chunk := blank[:pace.chunk()]
	for !limited || left > 0 {
		if limited {
			chunk = chunk[:min(uint64(len(chunk)), left)]
		}
		if err := pace.wait(s.done, len(chunk)); err != nil {
			return err
		}
		if err := c.client.write(chunk); err != nil {
			return err
		}
		left -= uint64(len(chunk))
	}
	return c.client.finish()
}

// receive counts what arrives until the sender ends or the flow is over.
func receive(c *connection) error {
	for {
		n, err := c.server.discard(readSize)
		if err != nil || n == 0 {
			return err
		}
		if !c.meter.add(time.Now(), n) {
			return os.ErrDeadlineExceeded
		}
	}
}

// pacer spreads writes so that they do not exceed a rate on average. The zero rate does not pace.
type pacer struct {
	rate units.BitRate
	due  time.Time
}

func newPacer(rate units.BitRate, now time.Time) pacer { return pacer{rate: rate, due: now} }

// chunk is how much to write at a time, in octets.
func (p *pacer) chunk() int {
	if p.rate == 0 {
		return writeSize
	}
	octets := float64(p.rate) / 8 * pacedFor.Seconds()
	return int(min(max(octets, pacedMin), writeSize))
}

// wait waits until n more octets may be written. A sender that was held up may catch up afterwards.
func (p *pacer) wait(done <-chan struct{}, n int) error {
	if p.rate == 0 {
		return nil
	}
	if ahead := time.Until(p.due); ahead > 0 {
		timer := time.NewTimer(ahead)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return os.ErrDeadlineExceeded
		}
	}
	p.due = p.due.Add(time.Duration(float64(n) * 8 / float64(p.rate) * 1e9))
	return nil
}
