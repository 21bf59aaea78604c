// SPDX-License-Identifier: Apache-2.0

package station

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// shortPatience is the maximum duration of the last transfer at the end of the flow.
const shortPatience = 5 * time.Second

// nothingSent is the part of an end without socket counters.
type nothingSent struct{}

func (nothingSent) tally() (Tally, error) { return Tally{}, nil }
func (nothingSent) delay() Delay          { return Delay{} }
func (nothingSent) congestion() string    { return "" }
func (nothingSent) dscps() DSCPs          { return nil }

// shorts is the near end of a flow of short transfers, in sequence, each on its own connection.
type shorts struct {
	nothingSent
	task Task

	mu    sync.Mutex // guards ended
	ended []Echo
}

// send runs transfers until stop is closed, and waits for the last one.
func (s *shorts) send(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := s.one(stop); err != nil {
			return err
		}
	}
}

func (s *shorts) one(stop <-chan struct{}) error {
	at, err := Monotonic()
	if err != nil {
		return err
	}
	c, err := dial(s.task)
	if err != nil {
		return fmt.Errorf("begin a transfer: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
			_ = c.SetDeadline(time.Now().Add(shortPatience))
		case <-done:
		}
	}()
	err = json.NewEncoder(c).Encode(hello{Format: format, Kind: kindData, Session: s.task.Session})
	if err == nil {
		err = s.task.Flow.transfer(c, s.task.Flow.Reverse)
	}
	_ = c.Close()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("end a transfer: %w", err)
	}
	now, err := Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, Echo{At: at, RTT: now - at})
	return err
}

// transfer runs one end of one transfer, which ends when the receiver has all data and the sender
// knows it.
func (f Flow) transfer(c *net.TCPConn, receives bool) error {
	if receives {
		discard(c)
		return nil
	}
	for left := f.Size; left > 0; {
		n, err := c.Write(blank[:min(left, writeSize)])
		if left -= n; err != nil {
			return err
		}
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	discard(c)
	return nil
}

func (s *shorts) echoes() []Echo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ended)
}

func (s *shorts) close() {}

// shortsFar is the far end of such a flow: it serves all incoming connections.
type shortsFar struct {
	nothingSent
	end context.CancelFunc
}

func newShortsFar(ctx context.Context, f Flow, conns <-chan *net.TCPConn) *shortsFar {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case c := <-conns:
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				if choose(c, f.Congestion) == nil {
					_ = f.transfer(c, !f.Reverse)
				}
				_ = c.Close()
				stop()
			case <-ctx.Done():
				return
			}
		}
	}()
	return &shortsFar{end: cancel}
}

func (s *shortsFar) send(<-chan struct{}) error { return nil }
func (s *shortsFar) echoes() []Echo             { return nil }
func (s *shortsFar) arrivals() []Arrival        { return nil }

func (s *shorts) arrivals() []Arrival { return nil }
func (s *shortsFar) close()           { s.end() }
