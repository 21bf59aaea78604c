// SPDX-License-Identifier: Apache-2.0

package station

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// carrier holds the sockets of one end of a flow.
type carrier interface {
	// send sends until stop is closed or the flow breaks.
	send(stop <-chan struct{}) error
	// tally returns the counters so far; the caller sets At.
	tally() (Tally, error)
	// delay returns the sender kernel's measurement.
	delay() Delay
	// congestion returns the congestion control of the sockets; "" for UDP.
	congestion() string
	// dscps counts received packets by class, if the sockets report it.
	dscps() DSCPs
	// echoes returns the sent probes; nil for other flows.
	echoes() []Echo
	// arrivals returns the arrivals of trains since the last call; nil for other flows.
	arrivals() []Arrival
	close()
}

// station executes commands on a carrier.
type station struct {
	carrier carrier
	opened  time.Time
	stop    chan struct{}
	sending sync.WaitGroup
	broke   error // reason for the early end of sending; read after sending

	mu  sync.Mutex // guards out
	out *json.Encoder
}

// operate reports ready and executes commands until stop, the end of the commands or an error. It
// closes the carrier.
func operate(commands *json.Decoder, out io.Writer, c carrier) error {
	s := &station{carrier: c, opened: time.Now(), stop: make(chan struct{}), out: json.NewEncoder(out)}
	defer c.close()
	halt := sync.OnceFunc(func() { close(s.stop) })
	defer halt()
	if err := s.say(Event{Event: "ready"}); err != nil {
		return err
	}
	for {
		var do command
		if err := commands.Decode(&do); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read command: %w", err)
		}
		switch do.Do {
		case "send":
			s.sending.Go(func() { s.broke = c.send(s.stop) })
		case "measure":
			go s.measure(do)
		case "report":
			if err := s.say(Event{Event: "report", Arrivals: c.arrivals()}); err != nil {
				return err
			}
		case "stop":
			halt()
			s.sending.Wait()
			return s.stopped()
		default:
			return fmt.Errorf("%q is no command of a station", do.Do)
		}
	}
}

func (s *station) stopped() error {
	done, err := s.read("stopped")
	if err == nil {
		err = s.broke
	}
	if err != nil {
		done.Problem = err.Error()
	}
	done.Delay, done.Congestion, done.DSCPs = s.carrier.delay(), s.carrier.congestion(), s.carrier.dscps()
	done.Echoes = s.carrier.echoes()
	return s.say(done)
}

// measure reports the counters at the end of the warm-up and after the duration.
func (s *station) measure(m command) {
	for _, step := range []struct {
		name string
		wait time.Duration
	}{{"begin", m.Warmup}, {"end", m.Duration}} {
		timer := time.NewTimer(step.wait)
		select {
		case <-timer.C:
		case <-s.stop:
			timer.Stop()
			return
		}
		now, err := s.read(step.name)
		if err != nil {
			now = Event{Event: "problem", Problem: err.Error()}
		}
		if s.say(now) != nil {
			return // the client has ended, which ends the commands too
		}
	}
}

func (s *station) read(name string) (Event, error) {
	t, err := s.carrier.tally()
	t.At = time.Since(s.opened)
	return Event{Event: name, Tally: t}, err
}

func (s *station) say(e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(e); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// pace calls write for each block of payload at rate bit/s, until stop is closed or write fails. A
// rate of 0 does not wait. A delayed writer catches up by a few milliseconds at most.
func pace(rate float64, octets int, stop <-chan struct{}, write func() error) error {
	const behind, ahead = 5 * time.Millisecond, time.Millisecond
	due := time.Now()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if rate > 0 {
			now := time.Now()
			if due.Before(now.Add(-behind)) {
				due = now.Add(-behind)
			}
			if wait := due.Sub(now); wait > ahead {
				select {
				case <-time.After(wait):
				case <-stop:
					return nil
				}
			}
			due = due.Add(time.Duration(float64(octets) * 8e9 / rate))
		}
		if err := write(); err != nil {
			return err
		}
	}
}
