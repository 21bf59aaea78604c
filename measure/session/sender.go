// SPDX-License-Identifier: Apache-2.0

package session

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

// maxCount is the number of messages of one system call.
const maxCount = 4

// newSender returns a sender with a first message of this size in bytes.
func newSender(conn *websocket.Conn, series *socket.Series, first int) *sender {
	return &sender{bulk: conn.Bulk(), series: series, size: first}
}

// next sends one to four messages of together at most left bytes and adapts their size. While the
// socket has enough to send, it waits up to 50 ms and sends nothing.
func (s *sender) next(left uint64) error {
	if wait := s.series.Wait(); wait > 0 {
		time.Sleep(wait)
		return nil
	}
	size, count := s.plan(s.series.Rate())
	if uint64(size*count) > left {
		size, count = int(min(uint64(size), left)), 1
	}
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
	return size, min(max(count, 1), maxCount)
}
