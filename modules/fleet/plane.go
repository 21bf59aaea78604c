// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"os"

	"weir/core/module"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/fleet/bus"
)

// plane is the membership of a host. It has nothing in the kernel.
type plane struct{ host module.Host }

// membership returns the treatment of a state; nil for none.
func membership(s module.State) *Treatment {
	for _, i := range s.Host {
		if t, ok := i.Treatment.(*Treatment); ok {
			return t
		}
	}
	return nil
}

// Ready checks the credentials.
func (p *plane) Ready(want module.State) error {
	t := membership(want)
	if t == nil {
		return nil
	}
	c, _, err := bus.ReadCredentials(t.Credentials)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if c.Host != "" && c.Host != t.Host || c.Fleet != "" && c.Fleet != t.Fleet {
		return fault.New(fault.Usage, fmt.Sprintf("write name: %s and host: %s, or enroll this host", c.Fleet, c.Host),
			"fleet: credentials: %s is of host %s of fleet %s, not of host %s of fleet %s", t.Credentials, c.Host, c.Fleet, t.Host, t.Fleet)
	}
	return nil
}

// InPlace reports whether the files of the membership exist, or are not needed.
func (p *plane) InPlace(have module.State) (bool, error) {
	_, err := os.Stat(p.file())
	if errors.Is(err, os.ErrNotExist) {
		return !have.Empty(), nil
	}
	return err == nil, err
}

// Apply makes the folder of the membership.
func (p *plane) Apply(_, _ module.State) (notes []string, err error) {
	return nil, os.MkdirAll(p.host.Files, 0o700)
}

// Release removes the files of the membership, the floors included.
func (p *plane) Release() (released bool, err error) {
	if info, err := os.Stat(p.host.Files); err != nil || !info.IsDir() {
		return false, nil
	}
	return true, os.RemoveAll(p.host.Files)
}

// WithoutDaemon is the warning without a daemon.
func (p *plane) WithoutDaemon() string {
	return "no daemon follows the fleet: limits with shared keep their lowest rate; run 'weir daemon'"
}

// fields declares the values of each limit that follows a shared one.
func fields() []module.Field[claim] {
	bits := func(of func(claim) float64) func(claim) module.Value {
		return func(c claim) module.Value { return module.Measured(of(c)) }
	}
	return []module.Field[claim]{
		{Column: module.Column{Name: "granted", Title: "granted", Unit: module.BitPerSecond, Kind: module.Gauge, Help: "Rate that the host may use now."},
			Value: bits(func(c claim) float64 { return c.Rate })},
		{Column: module.Column{Name: "floor", Title: "floor", Unit: module.BitPerSecond, Kind: module.Gauge, Help: "Admitted guarantee, the rate without contact."},
			Value: bits(func(c claim) float64 { return c.Floor })},
		{Column: module.Column{Name: "used", Title: "used", Unit: module.BitPerSecond, Kind: module.Gauge, Help: "Rate used in the last report interval."},
			Value: bits(func(c claim) float64 { return c.Used })},
		{Column: module.Column{Name: "lease", Title: "lease", Unit: module.Seconds, Kind: module.Gauge, Help: "Remaining lease of the granted rate; 0 at the floor."},
			Value: bits(func(c claim) float64 { return c.lease().Seconds() })},
	}
}

// Columns declares the values of Report: a row for each direction of a scope that follows.
func (Module) Columns() module.Columns {
	return module.Columns{Rows: module.ColumnsOf(fields()), Part: "direction", Promise: "shared limit", Host: []module.Column{
		{Name: "contact", Unit: module.Events, Kind: module.Gauge, Help: "1 while a leader answers the reports of this host."},
		{Name: "epoch", Unit: module.Events, Kind: module.Gauge, Help: "Epoch of the leader."},
	}}
}

// Report returns the claims as the daemon has written them.
func (p *plane) Report(have module.State) (report module.Report, err error) {
	t := membership(have)
	if t == nil {
		return report, nil
	}
	s, err := readFile(p.file())
	if err != nil {
		return report, err
	}
	contact := 0.0
	for _, c := range s.Claims {
		if c.lease() > 0 {
			contact = 1
		}
		report.Rows = append(report.Rows, module.Row{Scope: c.Scope, Part: c.Direction, Promise: c.Limit, Values: module.ValuesOf(fields(), c)})
		if c.Reason != "" {
			report.Note = append(report.Note, fmt.Sprintf("%s %s: %s (has %s)", c.Scope, c.Direction, c.Reason, units.BitRate(c.Rate)))
		}
	}
	report.Host = []module.Value{module.Measured(contact), module.Measured(float64(s.Epoch))}
	if contact == 0 && len(s.Claims) > 0 {
		report.Note = append(report.Note, fmt.Sprintf("no leader of fleet %s answers: %s", t.Fleet, s.problem()))
	}
	return report, nil
}
