// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/ethtool"
)

// watcher counts the arrivals at a port.
type watcher struct {
	fd   int
	quit chan struct{}
	done chan struct{}
	once sync.Once

	mu     sync.Mutex // guards the fields below
	m      *matcher
	at     time.Time // of the last arrival
	failed error
}

const (
	receiveBuffer = 128 << 20 // octets
	poll          = 10        // ms
)

// watch starts to count. A device that merges packets (GRO) would deliver other frames than
// arrived.
func watch(to Port, m *matcher) (*watcher, error) {
	features, err := ethtool.Features(to.Namespace, to.Device)
	if err != nil {
		return nil, err
	}
	if features["gro"] {
		return nil, fault.New(fault.Usage, fmt.Sprintf("run 'ethtool -K %s gro off'", to.Device), "%s merges packets that arrive (GRO): frames could not be counted", to.Device)
	}
	fd, _, err := socket(to, unix.ETH_P_ALL)
	if err != nil {
		return nil, err
	}
	w := &watcher{fd: fd, quit: make(chan struct{}), done: make(chan struct{}), m: m, at: time.Now()}
	for _, option := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer},
		{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
	} {
		if err := unix.SetsockoptInt(fd, option.level, option.name, option.value); err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
	}
	go w.serve()
	return w, nil
}

func (w *watcher) serve() {
	defer close(w.done)
	frame, control := make([]byte, 64<<10), make([]byte, 256)
	readable := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	for {
		n, controls, _, _, err := unix.Recvmsg(w.fd, frame, control, unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			w.count(frame[:n], control[:controls])
			continue
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			w.mu.Lock()
			w.failed = err
			w.mu.Unlock()
			return
		}
		select {
		case <-w.quit:
			return
		default:
			_, _ = unix.Poll(readable, poll)
		}
	}
}

func (w *watcher) count(frame, control []byte) {
	at := time.Duration(0)
	if messages, err := unix.ParseSocketControlMessage(control); err == nil {
		for _, m := range messages {
			if m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
				at = time.Duration(binary.NativeEndian.Uint64(m.Data)*1e9 + binary.NativeEndian.Uint64(m.Data[8:]))
			}
		}
	}
	w.mu.Lock()
	w.m.arrive(frame, at)
	w.at = time.Now()
	w.mu.Unlock()
}

// settle waits for the remaining frames, until none has arrived for a while.
func (w *watcher) settle(sent uint64) (*Arrived, error) {
	for until := time.Now().Add(longest); time.Now().Before(until); time.Sleep(poll * time.Millisecond) {
		w.mu.Lock()
		complete, quiet, failed := w.m.arrived.Frames >= sent, time.Since(w.at), w.failed
		w.mu.Unlock()
		if complete || quiet > straggle || failed != nil {
			break
		}
	}
	w.stop()
	if w.failed != nil {
		return nil, fmt.Errorf("count arrivals: %w", w.failed)
	}
	a := w.m.arrived
	a.Missing = sent - min(a.Frames, sent)
	statistics, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return nil, fmt.Errorf("count arrivals: %w", err)
	}
	a.Dropped = uint64(statistics.Drops)
	return &a, nil
}

func (w *watcher) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

func (w *watcher) close() {
	w.stop()
	_ = unix.Close(w.fd)
}
