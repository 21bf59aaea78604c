// SPDX-License-Identifier: Apache-2.0

// Package instrument is a tester that runs until it is stopped: each port has a generator and an
// analyzer, and a new state of all ports is applied at once.
//
// Ports are opened once. The generator is a thread with an AF_XDP socket that sleeps until a setup
// starts it; the analyzer is an XDP program that stays attached and is switched between two banks
// of maps. So a setup changes memory alone: no program is loaded, verified or attached.
//
// Pitfalls:
//   - A changed generator starts again at sequence number 0, a changed analyzer from zero.
//     Unchanged ones notice nothing.
//   - An analyzer that is on drops test frames: the port's sockets do not see them.
//   - The device's only XDP program is the analyzer for as long as the instrument is open.
//   - A frame costs the sender about 1 µs. A sender that lags more than 2 ms moves its schedule;
//     Sent.Late and Sent.Lag report it.
package instrument

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/tester/tai"
)

// Port is a device of the instrument.
type Port struct {
	Name      string
	Namespace *netns.Namespace // nil is the calling thread's own
	Device    string
	Speed     uint64 // bit/s, for gaps in octets; 0 is unknown
}

// Setup is the state of one port. Values behind its pointers must not change afterwards.
type Setup struct {
	Generator *Generator
	Analyzer  *Analyzer
}

// Events are calls of the instrument's own goroutines; each must return soon. A nil function is
// not called.
type Events struct {
	Ended func(port, reason string) // a generator ended by itself
	Link  func(port string, up bool)
}

// Options of an instrument.
type Options struct {
	MaxDuration time.Duration // of a generator; 0 is 24 h
	Events      Events
}

// port is an open port.
type port struct {
	config   Port
	index    int
	mtu      int
	conn     *rtnl.Conn
	sender   *sender
	analyzer *analyzer
	missing  error // why there is no analyzer
	account  *account
	setup    Setup
	up       bool
}

// Instrument is a set of open ports. Its methods are safe for concurrent use.
type Instrument struct {
	options Options
	order   []string
	ports   map[string]*port
	mu      sync.Mutex // serialises Apply and guards setups and accounts
	quit    chan struct{}
	watcher sync.WaitGroup
}

// Open opens all ports. A port without native XDP has no analyzer.
func Open(ports []Port, options Options) (*Instrument, error) {
	if options.MaxDuration == 0 {
		options.MaxDuration = 24 * time.Hour
	}
	i := &Instrument{options: options, ports: map[string]*port{}, quit: make(chan struct{})}
	for _, config := range ports {
		p, err := i.open(config)
		if p != nil {
			i.ports[config.Name] = p
			i.order = append(i.order, config.Name)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open port %s: %w", config.Name, err), i.Close())
		}
	}
	i.watcher.Go(i.watch)
	return i, nil
}

func (i *Instrument) open(config Port) (*port, error) {
	conn, err := rtnl.Open(config.Namespace)
	if err != nil {
		return nil, err
	}
	p := &port{config: config, conn: conn}
	device, err := conn.Device(config.Device)
	if err != nil {
		return p, fault.Wrap(err, fault.Usage, "name a device of that namespace: ip link")
	}
	p.index, p.mtu, p.up = device.Index, device.MTU, device.Running
	if p.analyzer, err = openAnalyzer(p); err != nil {
		if fault.Of(err) != fault.Testbed {
			return p, err
		}
		p.missing = err
	}
	ended := func(reason string) {
		if i.options.Events.Ended != nil {
			i.options.Events.Ended(config.Name, reason)
		}
	}
	p.sender, err = openSender(p, ended)
	return p, err
}

// Close stops all traffic and detaches all programs.
func (i *Instrument) Close() error {
	close(i.quit)
	i.watcher.Wait()
	var all []error
	for _, name := range i.order {
		p := i.ports[name]
		if p.sender != nil {
			p.sender.close()
		}
		if p.analyzer != nil {
			all = append(all, p.analyzer.close())
		}
		p.conn.Close()
	}
	return errors.Join(all...)
}

// Ports lists the ports in the order of Open.
func (i *Instrument) Ports() []Port {
	all := make([]Port, 0, len(i.order))
	for _, name := range i.order {
		all = append(all, i.ports[name].config)
	}
	return all
}

// Rejection is a part of a setup that a port cannot carry out.
type Rejection struct {
	Port   string
	Part   string // "", "generator", "analyzer", or a field of one of its streams
	Stream int    // of a field
	Reason string
}

func (r *Rejection) Error() string { return fmt.Sprintf("port %s: %s", r.Port, r.Reason) }

// Check reports the first part of a setup that cannot be carried out now. Unchanged parts are not
// checked.
func (i *Instrument) Check(setups map[string]Setup) *Rejection {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.check(setups)
}

func (i *Instrument) check(setups map[string]Setup) *Rejection {
	for name := range setups {
		if i.ports[name] == nil {
			return &Rejection{Port: name, Reason: fmt.Sprintf("there is no such port: %v are open", i.order)}
		}
	}
	for _, name := range i.order {
		p, want := i.ports[name], setups[name]
		if want.Generator != nil && !reflect.DeepEqual(want.Generator, p.setup.Generator) {
			if r := p.checkGenerator(want.Generator); r != nil {
				return r
			}
		}
		if want.Analyzer != nil && !reflect.DeepEqual(want.Analyzer, p.setup.Analyzer) && p.analyzer == nil {
			return &Rejection{Port: name, Part: "analyzer", Reason: p.missing.Error()}
		}
	}
	return nil
}

func (p *port) checkGenerator(g *Generator) *Rejection {
	reject := func(part string, stream int, format string, args ...any) *Rejection {
		return &Rejection{p.config.Name, part, stream, fmt.Sprintf(format, args...)}
	}
	device, err := p.conn.Device(p.config.Device)
	switch {
	case err != nil:
		return reject("generator", 0, "%s", err)
	case !device.Running:
		return reject("generator", 0, "the link of %s is down", p.config.Device)
	case p.config.Speed == 0:
		return reject("gap", 0, "gaps in octets need the port's speed: none is known or declared")
	case !g.Epoch.IsZero() && g.Epoch.Before(time.Now()):
		return reject("realtime-epoch", 0, "%s is in the past", g.Epoch.UTC().Format(time.RFC3339Nano))
	case len(g.Streams) > MaxStreams:
		return reject("generator", 0, "%d streams are more than %d", len(g.Streams), MaxStreams)
	}
	p.mtu = device.MTU
	for n := range g.Streams {
		s := &g.Streams[n]
		if field, problem := CheckStream(s); field != "" {
			return reject(field, n, "%s", problem)
		}
		if most := p.mtu + headers; s.Size > most {
			return reject("frame-size", n, "the MTU of %s is %d: frames of up to %d octets fit", p.config.Device, p.mtu, most)
		}
	}
	return nil
}

// headers are the octets of a frame beyond the MTU: Ethernet, one VLAN tag, FCS.
const headers = 14 + 4 + 4

// settle is the time for the last frames of a stopped generator to arrive before analyzers start
// from zero.
const settle = 200 * time.Microsecond

// Apply makes the setups active: all of them, or none. Ports without a setup become silent. On
// return, stopped generators send nothing more, and started ones run.
func (i *Instrument) Apply(_ context.Context, setups map[string]Setup) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r := i.check(setups); r != nil {
		return r
	}
	offset, err := tai.Offset()
	if err != nil {
		return err
	}
	former := map[string]Setup{}
	for name, p := range i.ports {
		former[name] = p.setup
	}
	if err := i.change(setups, offset); err != nil {
		return errors.Join(err, i.change(former, offset))
	}
	return nil
}

// change stops, resets and starts, in this order: an analyzer that starts too early would count the
// old generator's last frames, one that starts too late would miss the new one's first.
func (i *Instrument) change(setups map[string]Setup, offset int64) error {
	var generators, analyzers []*port
	for _, name := range i.order {
		p, want := i.ports[name], setups[name]
		if !reflect.DeepEqual(want.Generator, p.setup.Generator) {
			generators = append(generators, p)
		}
		if !reflect.DeepEqual(want.Analyzer, p.setup.Analyzer) {
			analyzers = append(analyzers, p)
		}
	}
	if i.silence(generators) && len(analyzers) > 0 {
		time.Sleep(settle)
	}
	for _, p := range analyzers {
		setting := setups[p.config.Name].Analyzer
		if err := p.analyzer.set(setting, offset); err != nil {
			return err
		}
		p.setup.Analyzer = setting
	}
	i.start(generators, setups, offset)
	return nil
}

// silence stops generators; it reports whether any was running.
func (i *Instrument) silence(ports []*port) (ran bool) {
	var orders []*order
	for _, p := range ports {
		if p.account == nil {
			continue
		}
		ran = ran || p.account.running.Load()
		o := &order{taken: make(chan struct{})}
		p.sender.give(o)
		orders = append(orders, o)
		p.setup.Generator, p.account = nil, nil
	}
	for _, o := range orders {
		<-o.taken
	}
	return ran
}

// start starts generators with a common origin.
func (i *Instrument) start(ports []*port, setups map[string]Setup, offset int64) {
	var orders []*order
	var senders []*sender
	origin := uint64(0)
	for _, p := range ports {
		g := setups[p.config.Name].Generator
		if g == nil {
			continue
		}
		p.sender.tai.Store(offset)
		p.account = &account{}
		p.setup.Generator = g
		orders = append(orders, &order{program: compile(g, p.config.Speed, 0), account: p.account, taken: make(chan struct{})})
		senders = append(senders, p.sender)
	}
	for n, o := range orders {
		if origin == 0 {
			origin = senders[n].now()
		}
		o.program.start = origin
		if epoch := setups[senders[n].port.config.Name].Generator.Epoch; !epoch.IsZero() {
			o.program.start = monotonic(epoch)
		}
		o.until = o.program.start + uint64(i.options.MaxDuration)
		senders[n].give(o)
	}
	for _, o := range orders {
		<-o.taken
	}
}

// monotonic converts wall-clock time to ns of CLOCK_MONOTONIC.
func monotonic(t time.Time) uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // the clock exists
	return uint64(now.Nano() + int64(time.Until(t)))
}
