// SPDX-License-Identifier: Apache-2.0

package ndt7

import (
	"sync/atomic"
	"time"

	"weir/measure/socket"
	"weir/measure/websocket"
)

// sender sends bulk data. One goroutine runs it.
type sender struct {
	bulk   *websocket.Bulk
	series *socket.Series
	size   int
	queued uint64
	sent   atomic.Uint64 // payload bytes written
}

func newSender(conn *websocket.Conn, series *socket.Series) *sender {
	return &sender{bulk: conn.Bulk(), series: series, size: firstMessage}
}

// next sends one to four messages and adapts their size. While the socket has enough to send, it
// waits up to 50 ms and sends nothing.
func (s *sender) next() error {
	if wait := s.series.Wait(); wait > 0 {
		time.Sleep(wait)
		return nil
	}
	size, count := s.plan(s.series.Rate())
	if err := s.bulk.Write(size, count); err != nil {
		return err
	}
	s.queued += uint64(size * count)
	s.sent.Store(s.queued)
	if s.size < websocket.MaxBulk && uint64(s.size) <= s.queued/16 {
		s.size *= 2
	}
	return nil
}

// plan returns the size of a message and the number of messages for one system call. The size
// doubles with the amount sent (specification, appendix) and takes at most messageTime.
func (s *sender) plan(rate uint64) (size, count int) {
	perMessage := rate * uint64(messageTime) / uint64(time.Second)
	size = s.size
	for size > minMessage && rate > 0 && uint64(size) > perMessage {
		size /= 2
	}
	if size == websocket.MaxBulk {
		count = int(perMessage / (4 * websocket.MaxBulk))
	}
	return size, min(max(count, 1), 4)
}
