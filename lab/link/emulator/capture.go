// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"os"
	"time"

	"weir/kernel/clock"
	"weir/lab/link"
	"weir/lab/link/model"
	"weir/lab/link/pcapng"
)

const (
	chunkSize = 256 << 10
	maxChunks = 64 // of a cable
	minChunks = 4
	allChunks = 256 // of all cables
)

// capture writes a cable's frames and their fate to a file. The cable's thread fills chunks of
// memory, and a goroutine writes them. If the disk is too slow, frames are missing in the trace and
// counted; none is delayed.
type capture struct {
	file    *os.File
	snap    int
	offset  int64 // from the monotonic clock to the time since 1970, ns
	current []byte
	empty   chan []byte
	full    chan []byte
	missing [2]uint64
	written chan error
}

// openCapture creates the trace file of one of several cables.
func openCapture(path, cable string, snap, cables int) (*capture, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make packet trace: %w", err)
	}
	chunks := max(minChunks, min(maxChunks, allChunks/cables))
	c := &capture{file: file, snap: snap, offset: time.Now().UnixNano() - clock.Now(),
		empty: make(chan []byte, chunks), full: make(chan []byte, chunks), written: make(chan error, 1)}
	for range chunks {
		c.empty <- make([]byte, 0, chunkSize)
	}
	c.current = pcapng.Header(<-c.empty, "weir lab", snap, link.DirectionName(cable, false), link.DirectionName(cable, true))
	go c.write()
	return c, nil
}

func (c *capture) write() {
	var failed error
	for chunk := range c.full {
		if failed == nil {
			_, failed = c.file.Write(chunk)
		}
		c.empty <- chunk[:0]
	}
	if err := c.file.Close(); failed == nil {
		failed = err
	}
	c.written <- failed
}

// frame records a frame. Only the cable's thread calls it.
func (c *capture) frame(direction int, at int64, octets int, content []byte, comment string) {
	content = content[:min(len(content), c.snap)]
	if len(c.current)+len(content)+len(comment)+pcapng.Overhead > chunkSize {
		select {
		case next := <-c.empty:
			c.full <- c.current
			c.current = next
		default:
			c.missing[direction]++
			return
		}
	}
	c.current = pcapng.Frame(c.current, direction, at+c.offset, octets, content, comment)
}

// close writes the rest after the end of the thread.
func (c *capture) close() error {
	for direction, missing := range c.missing {
		c.current = pcapng.Statistics(c.current, direction, clock.Now()+c.offset, missing)
	}
	c.full <- c.current
	close(c.full)
	if err := <-c.written; err != nil {
		return fmt.Errorf("write packet trace: %w", err)
	}
	return nil
}

// remarks holds the comments by decision: 1 marked, 2 damaged, 4 doubled, 8 not delayed.
var remarks = func() (all [16]string) {
	for set := range all {
		for i, word := range []string{"marked with congestion experienced", "damaged: one bit inverted", "doubled", "not delayed"} {
			if set&(1<<i) == 0 {
				continue
			}
			if all[set] != "" {
				all[set] += ", "
			}
			all[set] += word
		}
	}
	return all
}()

// remark returns the comment of a frame.
func remark(d model.Decision, discipline link.Discipline) string {
	switch {
	case d.Fate == model.LossDrop:
		return "lost by the link"
	case d.Fate == model.QueueDrop && discipline == link.DropTail:
		return "dropped: the queue was full"
	case d.Fate == model.QueueDrop:
		return "dropped by the queue's discipline, or since it was full"
	}
	set := 0
	for i, is := range []bool{d.Mark, d.Damage, d.Duplicate, d.Reordered} {
		if is {
			set |= 1 << i
		}
	}
	return remarks[set]
}
