// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"errors"
	"fmt"
	"time"

	"weir/kernel/xsk"
	"weir/tester/frame"
)

// run sends until the schedule's end and returns the reason for the end.
func (e *engine) run() (ended string, err error) {
	e.started = e.now()
	until := uint64(e.schedule.Duration)
	for !e.stop.Load() {
		select {
		case reply := <-e.ask:
			reply <- e.generation()
		default:
		}
		elapsed := e.now() - e.started
		switch {
		case elapsed >= until:
			return frame.Ended(e.plan), e.flush()
		case e.schedule.MaxFrames != 0 && e.frames >= e.schedule.MaxFrames:
			return "frame limit", e.flush()
		}
		index, due := e.next(elapsed)
		if index < 0 {
			if err := e.flush(); err != nil || due == never {
				return "schedule", err
			}
			e.wait(e.started + min(due, until))
			continue
		}
		if !e.hasBuffers() {
			if err := e.kick(); err != nil {
				return "", err
			}
			continue
		}
		if err := e.send(index, due); err != nil {
			return "", err
		}
	}
	return "stopped", e.flush()
}

// maxBuffers is the maximum number of buffers of a frame.
const maxBuffers = (frame.MaxSize + bufferSize - 1) / bufferSize

func (e *engine) hasBuffers() bool {
	if e.socket.Free() >= maxBuffers && e.umem.Available() >= maxBuffers {
		return true
	}
	e.socket.Reap()
	return e.socket.Free() >= maxBuffers && e.umem.Available() >= maxBuffers
}

// send makes the stream's next frame and queues it.
func (e *engine) send(index int, due uint64) error {
	n := e.sent[index].Frames
	template := e.plan[index].Next(n)
	length := len(template.Octets)
	now := e.now()
	if length <= bufferSize {
		addr, _ := e.umem.Take() // hasBuffers has checked that one is free
		d := xsk.Desc{Addr: addr, Len: uint32(length)}
		template.Fill(e.umem.Bytes(d), n, now+e.offset, false)
		e.socket.Transmit(d)
	} else {
		e.scatter(template.Fill(e.buffer, n, now+e.offset, false))
	}
	sent := &e.sent[index]
	if n == 0 {
		sent.First = time.Duration(now)
	}
	sent.Last = time.Duration(now)
	e.account(index, due, now-e.started)
	if e.queued++; e.queued >= e.batch {
		return e.flush()
	}
	return nil
}

// scatter queues a frame in several buffers.
func (e *engine) scatter(octets []byte) {
	for len(octets) > 0 {
		addr, _ := e.umem.Take()
		d := xsk.Desc{Addr: addr, Len: uint32(min(len(octets), bufferSize))}
		octets = octets[copy(e.umem.Bytes(d), octets):]
		if len(octets) > 0 {
			d.Flags = xsk.Continues
		}
		e.socket.Transmit(d)
	}
}

// flush has the kernel send the queued frames.
func (e *engine) flush() error {
	if e.queued == 0 {
		return nil
	}
	e.queued = 0
	for first := true; first || e.socket.Unsent() > 0; first = false {
		if err := e.kick(); err != nil {
			return err
		}
		if e.socket.Unsent() > 0 && (e.stop.Load() || e.now()-e.started >= uint64(e.schedule.Duration)) {
			e.refused += uint64(e.socket.Unsent()) // a device that accepts nothing must not delay the end
			return nil
		}
	}
	return nil
}

// kick makes one attempt to send; a full device is no error.
func (e *engine) kick() error {
	err := e.socket.Kick()
	e.socket.Reap()
	switch {
	case err == nil, errors.Is(err, xsk.ErrAgain):
		return nil
	case errors.Is(err, xsk.ErrDropped):
		e.refused++
		return nil
	}
	return fmt.Errorf("send from %s: %w", e.port.Device, err)
}

// patience is the maximum wait of settle for the last frames to return from the device.
const patience = 100_000_000 // ns

// settle waits until the device has released the frames, at most for patience.
func (e *engine) settle() {
	for until := e.now() + patience; e.socket.Outstanding() > 0 && e.now() < until; {
		e.wait(min(e.now()+1_000_000, until))
		e.socket.Reap()
	}
}
