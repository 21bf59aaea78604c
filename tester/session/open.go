// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/kernel/rtnl"
	"weir/tester/neighbour"
)

// Session holds checked ports and attached analyzers. It makes one run; then Close it.
type Session struct {
	config    Config
	receivers map[string]Receiver // by port
	order     []string            // receiving ports in the order of the directions
	ports     []Port              // every local port, once
	notes     []string

	responders []*neighbour.Responder
}

// Open checks the ports, fills in missing addresses and attaches the analyzers. The caller must
// Close the session.
func Open(ctx context.Context, config Config) (*Session, error) {
	if len(config.Directions) == 0 {
		return nil, fault.New(fault.Usage, "name a port to send from or to receive on", "nothing to send and nothing to receive")
	}
	if config.Engine == nil {
		config.Engine = machine{}
	}
	if config.Straggle == 0 {
		config.Straggle = DefaultStraggle
	}
	if config.Clock == "" {
		config.Clock = clockOf(config.Directions)
	}
	config.Directions = append([]Direction(nil), config.Directions...)
	s := &Session{config: config, receivers: map[string]Receiver{}}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func clockOf(directions []Direction) Clock {
	for _, d := range directions {
		if !d.From.Here() || !d.To.Here() {
			return Relative
		}
	}
	return OneWay
}

func (s *Session) prepare(ctx context.Context) error {
	if err := checkSchedule(s.config.Directions); err != nil {
		return err
	}
	if _, devices := s.config.Engine.(interface{ real() }); devices {
		if err := s.checkPorts(ctx); err != nil {
			return err
		}
		if err := s.answer(); err != nil {
			return err
		}
	}
	return s.attach()
}

func (s *Session) checkPorts(ctx context.Context) error {
	for i := range s.config.Directions {
		d := &s.config.Directions[i]
		largest := 0
		for _, stream := range d.Schedule.Streams {
			for _, share := range stream.Sizes {
				largest = max(largest, share.Size)
			}
		}
		from, err := s.check(d.From, largest)
		if err != nil {
			return err
		}
		to, err := s.check(d.To, largest)
		if err != nil {
			return err
		}
		if !d.From.Here() {
			continue
		}
		notes, err := address(ctx, d, from, to)
		if err != nil {
			return err
		}
		s.notes = append(s.notes, notes...)
	}
	return nil
}

func (s *Session) check(port Port, largest int) (rtnl.Device, error) {
	if !port.Here() {
		return rtnl.Device{}, nil
	}
	device, err := checkPort(port, largest, s.config.IKnow)
	if err == nil {
		s.ports = append(s.ports, port)
	}
	return device, err
}

// attach opens one analyzer per receiving port, for the streams of all directions that end there.
func (s *Session) attach() error {
	expect := map[string]Reception{}
	ports := map[string]Port{}
	for _, d := range s.config.Directions {
		if !d.To.Here() {
			continue
		}
		name := d.To.String()
		if _, known := ports[name]; !known {
			s.order = append(s.order, name)
		}
		ports[name] = d.To
		e := expect[name]
		e.Capture = s.config.Capture > 0
		e.Relative = e.Relative || !d.From.Here()
		for _, stream := range d.Schedule.Streams {
			if stream.Stamped {
				e.Streams = append(e.Streams, stream.ID)
			}
		}
		expect[name] = e
	}
	for _, name := range s.order {
		receiver, err := s.config.Engine.Receive(ports[name], expect[name])
		if err != nil {
			return fmt.Errorf("receive on %s: %w", name, err)
		}
		s.receivers[name] = receiver
	}
	return nil
}

// Close detaches every analyzer and ends the answers to neighbours. It is safe to call twice.
func (s *Session) Close() error {
	var all []error
	for _, r := range s.responders {
		all = append(all, r.Close())
	}
	s.responders = nil
	for name, receiver := range s.receivers {
		if err := receiver.Close(); err != nil {
			all = append(all, fmt.Errorf("detach analyzer of %s: %w", name, err))
		}
		delete(s.receivers, name)
	}
	return errors.Join(all...)
}
