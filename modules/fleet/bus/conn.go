// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"weir/internal/fault"
	"weir/modules/fleet/wire"
)

// Conn is a connection to the servers of a fleet.
type Conn struct {
	fleet string
	nats  *nats.Conn
}

// Wrap returns a connection of a server's own process.
func Wrap(fleet string, c *nats.Conn) *Conn { return &Conn{fleet, c} }

// Dial connects with a credentials file to the first server that answers. Later it reconnects by
// itself. If wait is set, it does not need a server yet.
func Dial(fleet string, servers []string, credentials string, wait bool) (*Conn, error) {
	c, options, err := ReadCredentials(credentials)
	if err != nil {
		return nil, err
	}
	if fleet == "" {
		fleet = c.Fleet
	}
	if c.Fleet != "" && c.Fleet != fleet {
		return nil, fault.New(fault.Usage, "use the credentials of this fleet, or correct its name", "credentials: %s is of the fleet %s, not %s", credentials, c.Fleet, fleet)
	}
	o := nats.GetDefaultOptions()
	for _, s := range servers {
		o.Servers = append(o.Servers, "tls://"+s)
	}
	options = append(options, nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(2*time.Second), nats.RetryOnFailedConnect(wait), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	for _, set := range options {
		if err := set(&o); err != nil {
			return nil, fault.New(fault.Usage, "enroll the host again with 'weir fleet enroll HOST'", "credentials: %v", err)
		}
	}
	conn, err := o.Connect()
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fault.New(fault.Permission, "make new ones with 'weir fleet enroll HOST' on the server", "the fleet's server rejects the credentials in %s", credentials)
	case err != nil:
		return nil, fault.New(fault.Failed, "start 'weir fleet serve' there, or correct the address", "connect to the fleet's servers %v: %v", servers, err)
	}
	return &Conn{fleet, conn}, nil
}

// Fleet returns the name of the fleet.
func (c *Conn) Fleet() string { return c.fleet }

// Close closes the connection.
func (c *Conn) Close() { c.nats.Close() }

// Connected reports whether a server is connected, and its address.
func (c *Conn) Connected() (string, bool) { return c.nats.ConnectedAddr(), c.nats.IsConnected() }

// Report sends a host's report. It is dropped while no server is connected.
func (c *Conn) Report(r wire.Report) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = c.nats.Publish(reports+c.fleet+"."+token(r.Host), text)
	}
	return err
}

// Grants calls a function for each grant of a host, one at a time.
func (c *Conn) Grants(host string, f func(wire.Grant)) error {
	_, err := c.nats.Subscribe(grants+c.fleet+"."+token(host), func(m *nats.Msg) {
		if g, err := wire.ParseGrant(m.Data); err == nil {
			f(g)
		}
	})
	return err
}

// Grant sends a grant to a host.
func (c *Conn) Grant(host string, g wire.Grant) error {
	text, err := json.Marshal(g)
	if err == nil {
		err = c.nats.Publish(grants+c.fleet+"."+token(host), text)
	}
	return err
}

// maxReport bounds a report: MaxClaims claims with long names.
const maxReport = 1 << 20

// Reports calls a function for each report that pass admits, one at a time. bad is called for a
// message that is no report of the host that owns its subject.
func (c *Conn) Reports(pass func(host string) bool, f func(wire.Report), bad func(host string, err error)) (stop func() error, err error) {
	sub, err := c.nats.Subscribe(reports+c.fleet+".*", func(m *nats.Msg) {
		host := hostOf(m.Subject)
		if !pass(host) {
			return
		}
		if len(m.Data) > maxReport {
			bad(host, fmt.Errorf("report of %d bytes, more than %d", len(m.Data), maxReport))
			return
		}
		r, err := wire.ParseReport(m.Data)
		if err == nil && r.Host != host {
			err = fmt.Errorf("report of %.40q by the subject of another host", r.Host)
		}
		if err != nil {
			bad(host, err)
			return
		}
		f(r)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to reports: %w", err)
	}
	return sub.Unsubscribe, nil
}

// Ask sends a request of an operator to the leader and decodes its answer.
func (c *Conn) Ask(request, answer any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := c.nats.Request(requests+c.fleet, text, 5*time.Second)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout):
		return fault.New(fault.Failed, "see whether 'weir fleet serve' runs, and try again in some seconds", "fleet %s has no leader now", c.fleet)
	case err != nil:
		return fmt.Errorf("ask the fleet's leader: %w", err)
	}
	return json.Unmarshal(m.Data, answer)
}

// Answer calls a function for each request of operators, and sends its result.
func (c *Conn) Answer(f func(request []byte) any) (stop func() error, err error) {
	sub, err := c.nats.Subscribe(requests+c.fleet, func(m *nats.Msg) {
		text, err := json.Marshal(f(m.Data))
		if err == nil {
			_ = m.Respond(text) // the operator asks again
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to requests: %w", err)
	}
	return sub.Unsubscribe, nil
}
