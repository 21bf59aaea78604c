// SPDX-License-Identifier: Apache-2.0

package native

import (
	"os"
	"time"

	"weir/internal/units"
)

const (
	// writeSize is the size of a bulk sender's write, in bytes.
	writeSize = 256 << 10
	// readSize is the maximum size of a read from a receive buffer, in bytes.
	readSize = 1 << 20
	// pacedFor is the time that one write of a rate-limited sender covers.
	pacedFor = 5 * time.Millisecond
	// pacedMin keeps a slow sender's segments from becoming tiny, in bytes.
	pacedMin = 1448
)

// blank is the payload of all TCP traffic. It is never written to.
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

// receive counts bytes until the sender ends or the flow is over.
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

// pacer spaces writes so that they do not exceed a rate on average. A rate of zero does not pace.
type pacer struct {
	rate units.BitRate
	due  time.Time
}

func newPacer(rate units.BitRate, now time.Time) pacer { return pacer{rate: rate, due: now} }

// chunk is the size of a write, in bytes.
func (p *pacer) chunk() int {
	if p.rate == 0 {
		return writeSize
	}
	octets := float64(p.rate) / 8 * pacedFor.Seconds()
	return int(min(max(octets, pacedMin), writeSize))
}

// wait waits until n more bytes may be written. After a delay, the
// sender may exceed the rate until it is on schedule again.
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
