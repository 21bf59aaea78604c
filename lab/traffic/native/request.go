// SPDX-License-Identifier: Apache-2.0

package native

import (
	"io"
	"os"
	"time"
)

// ask sends requests and records how long each exchange takes, from the first octet written to the
// last one read.
func (s *session) ask(c *connection) error {
	var count func(time.Time, int) bool
	if answers(s.flow) {
		count = c.meter.add
	}
	for {
		start := time.Now()
		if err := writeAll(c.client, uint64(s.flow.Request)); err != nil {
			return err
		}
		if err := readAll(c.client, uint64(s.flow.Response), count); err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(s.begin) >= s.flow.Duration {
			return os.ErrDeadlineExceeded
		}
		s.mu.Lock()
		s.exchanges.Record(uint64(now.Sub(start)))
		s.mu.Unlock()
	}
}

// serve answers every request as soon as all of it has arrived.
func (s *session) serve(c *connection) error {
	var count func(time.Time, int) bool
	if !answers(s.flow) {
		count = c.meter.add
	}
	for {
		if err := readAll(c.server, uint64(s.flow.Request), count); err != nil {
			return err
		}
		if err := writeAll(c.server, uint64(s.flow.Response)); err != nil {
			return err
		}
	}
}

func writeAll(s *socket, octets uint64) error {
	for octets > 0 {
		n := min(octets, writeSize)
		if err := s.write(blank[:n]); err != nil {
			return err
		}
		octets -= n
	}
	return nil
}

// readAll takes exactly so many octets and has them counted, if count is not nil.
func readAll(s *socket, octets uint64, count func(time.Time, int) bool) error {
	for octets > 0 {
		n, err := s.discard(int(min(octets, readSize)))
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		if count != nil && !count(time.Now(), n) {
			return os.ErrDeadlineExceeded
		}
		octets -= uint64(n)
	}
	return nil
}
