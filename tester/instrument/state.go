// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"net"
	"time"

	"weir/kernel/rtnl"
)

// State is the report of one port.
type State struct {
	Port     Port
	Up       bool
	MAC      net.HardwareAddr
	MTU      int
	Traffic  rtnl.Traffic
	Sent     *Sent   // nil without a generator
	Counts   *Counts // nil without an analyzer
	Analyzer *Analyzer
	Missing  error // why the port has no analyzer
}

// State reads one port. It holds the lock of Apply only to copy pointers.
func (i *Instrument) State(name string) (State, error) {
	p := i.ports[name]
	i.mu.Lock()
	account, setup := p.account, p.setup
	i.mu.Unlock()
	s := State{Port: p.config, Missing: p.missing, Analyzer: setup.Analyzer}
	device, err := p.conn.Device(p.config.Device)
	if err == nil {
		s.Up, s.MAC, s.MTU = device.Running, device.MAC, device.MTU
		s.Traffic, err = p.conn.Traffic(p.config.Device)
	}
	if err != nil {
		s.Up = false // the device is gone: its last counts remain
	}
	if account != nil {
		sent := account.sent()
		s.Sent = &sent
	}
	if p.analyzer != nil {
		if s.Counts, err = p.analyzer.counts(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Frames returns the last captured frames of a port, limit at most.
func (i *Instrument) Frames(name string, limit uint64) ([]Frame, error) {
	if p := i.ports[name]; p.analyzer != nil {
		return p.analyzer.frames(limit)
	}
	return nil, nil
}

const watchInterval = 100 * time.Millisecond

// watch reports links that change.
func (i *Instrument) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-i.quit:
			return
		case <-ticker.C:
		}
		for _, name := range i.order {
			p := i.ports[name]
			device, err := p.conn.Device(p.config.Device)
			up := err == nil && device.Running
			if up != p.up && i.options.Events.Link != nil {
				i.options.Events.Link(name, up)
			}
			p.up = up
		}
	}
}
