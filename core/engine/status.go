// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/sockdiag"
)

// Status is the active policy and its counters.
type Status struct {
	Format      string         `json:"format"`
	Enforced    bool           `json:"enforced" doc:"The data planes of all active modules are complete."`
	Interrupted bool           `json:"interrupted" doc:"An apply or release was interrupted; the next command completes it."`
	Underway    bool           `json:"underway,omitempty" doc:"An apply or release is running; other values may change."`
	Orphaned    bool           `json:"orphaned,omitempty" doc:"Programs are active without a state: end them with weir release."`
	Applied     time.Time      `json:"applied,omitzero"`
	Scopes      []ScopeStatus  `json:"scopes"`
	Modules     []ModuleStatus `json:"modules"`
	// Controller is the daemon that follows the policy; absent if there was none since the last
	// release.
	Controller *Controller `json:"controller,omitempty"`
}

// ScopeStatus is the status of one scope.
type ScopeStatus struct {
	policy.Scope
	State string `json:"state" doc:"enforced, shadow, waiting: ..., not attached, not bound: ... or replaced by ..."`
	Owner *Owner `json:"owner,omitempty" doc:"Origin of a scope that is not in the policy."`
	// Escaped holds sockets of the scope's processes outside its cgroup, if FindEscapes was called.
	Escaped []sockdiag.Escape `json:"escaped_sockets,omitempty"`
}

// ModuleStatus is a module's status of scopes and host.
type ModuleStatus struct {
	Module   string          `json:"module"`
	Enforced bool            `json:"enforced" doc:"Its data plane is complete."`
	Columns  []module.Column `json:"columns" doc:"The values, with units and kinds."`
	Part     string          `json:"part,omitempty" doc:"The property that distinguishes the rows of a scope."`
	Heading  string          `json:"-"` // of the promises; "" for none
	Rows     []RowStatus     `json:"rows"`
	Host     Values          `json:"host,omitempty" doc:"Values of the host."`
	Notes    []string        `json:"notes,omitempty"`
	Report   module.Report   `json:"-"`
}

// RowStatus is the status of one scope or a part of it.
type RowStatus struct {
	Scope   string `json:"scope"`
	Part    string `json:"part,omitempty"`
	Promise string `json:"promise,omitempty" doc:"The promise."`
	Mode    string `json:"mode,omitempty" doc:"How the promise is kept: shape, police or shadow, of a limit."`
	Reason  string `json:"reason,omitempty" doc:"Why a limit without the key mode is policed."`
	Values  Values `json:"values,omitempty" doc:"By names of columns; absent without the data plane."`
}

// Values maps names of columns to known values of a row.
type Values map[string]module.Value

const formatStatus = "weir-status/3"

// Status returns the status. It changes nothing.
func (e *Engine) Status() (Status, error) {
	status, err := e.ReadStatus()
	for i := range status.Modules {
		status.Modules[i].FillRows()
	}
	return status, err
}

// ReadStatus returns the status with the modules' reports in Report, not in Rows.
func (e *Engine) ReadStatus() (Status, error) {
	status := Status{Format: formatStatus, Scopes: []ScopeStatus{}, Modules: []ModuleStatus{}}
	s := e.store()
	begun, err := s.find(journal)
	if err != nil {
		return status, err
	}
	status.Underway = begun != nil && s.held()
	status.Interrupted = begun != nil && !status.Underway
	if status.Controller, err = readController(e.StateDir); err != nil {
		return status, err
	}
	have, err := s.read(current)
	if err == nil && begun == nil {
		status.Orphaned, err = e.orphaned(have)
	}
	if err != nil || have.Applied.IsZero() {
		return status, err
	}
	status.Applied = have.Applied
	attached := map[string]bool{}
	qdiscOwners, _ := e.ownersOf(have)
	for _, r := range e.Modules {
		part := qdiscOwners.of(have, r)
		if part.Empty() {
			continue
		}
		one, err := e.moduleStatus(r, part)
		if err != nil {
			return status, err
		}
		attached[r.Name()] = one.Enforced
		status.Modules = append(status.Modules, one)
	}
	status.Enforced = len(attached) > 0
	for _, in := range attached {
		status.Enforced = status.Enforced && in
	}
	return status, e.scopeStatus(&status, have, attached)
}

func (e *Engine) moduleStatus(r module.Module, part module.State) (ModuleStatus, error) {
	plane, columns := e.Plane(r), r.Columns()
	one := ModuleStatus{Module: r.Name(), Columns: columns.Rows, Part: columns.Part, Heading: columns.Promise, Rows: []RowStatus{}}
	var err error
	if one.Enforced, err = plane.InPlace(part); err != nil {
		return one, err
	}
	if one.Report, err = plane.Report(part); err != nil {
		return one, err
	}
	one.Notes = one.Report.Note
	one.Host = valuesOf(columns.Host, one.Report.Host)
	return one, nil
}

// FillRows fills Rows from Report.
func (one *ModuleStatus) FillRows() {
	for i := range one.Report.Rows {
		one.Rows = append(one.Rows, one.Row(i))
	}
}

func (one *ModuleStatus) Row(i int) RowStatus {
	row := one.Report.Rows[i]
	return RowStatus{row.Scope, row.Part, row.Promise, row.Mode, row.Reason, valuesOf(one.Columns, row.Values)}
}

func valuesOf(columns []module.Column, values []module.Value) Values {
	if values == nil {
		return nil
	}
	named := Values{}
	for i, c := range columns {
		if values[i].Known {
			named[c.Name] = values[i]
		}
	}
	return named
}

// scopeStatus adds the state of each scope. A scope is attached if all its modules are.
func (e *Engine) scopeStatus(status *Status, have *state, attached map[string]bool) error {
	look := e.lookup(have.names)
	for _, h := range have.Scopes {
		now, err := look.Bind(h.Selector)
		if errors.Is(err, selector.ErrAway) {
			now, err = e.bindAway(h, h.Selector, err), nil
		}
		if err != nil {
			return fmt.Errorf("scope %s: %w", h.Name, err)
		}
		in := true
		for module := range h.Treatments {
			in = in && attached[module]
		}
		if in && now.Missing == "" && h.Bound != now {
			rebound, err := e.rebound(h, now)
			if err != nil {
				return fmt.Errorf("scope %s: %w", h.Name, err)
			}
			if rebound {
				h.Bound = now
			}
		}
		status.Scopes = append(status.Scopes, ScopeStatus{Scope: h.Scope, State: stateOf(h, now, in), Owner: h.Owner})
	}
	for _, a := range have.Aside {
		status.Scopes = append(status.Scopes, ScopeStatus{Scope: a.Scope, State: "replaced by scope " + a.By, Owner: &a.Owner})
	}
	return nil
}

// rebound reports whether the kernel has bound a scope to the current object of its selector, in
// all its modules.
func (e *Engine) rebound(h held, now selector.Binding) (bool, error) {
	for _, r := range e.Modules {
		if _, treats := h.of(r, deviceNames{}); !treats {
			continue
		}
		plane, rebinds := e.Plane(r).(module.Rebinder)
		if !rebinds {
			return false, nil
		}
		for _, key := range now.Keys() {
			if holds, err := plane.Holds(h.Index, key); err != nil || !holds {
				return false, err
			}
		}
	}
	return true, nil
}

// stateOf returns the state of a scope: the object of the last apply may be gone or replaced.
func stateOf(h held, now selector.Binding, attached bool) string {
	switch {
	case now.Missing != "":
		return "waiting: " + now.Missing
	case !attached:
		return "not attached"
	case h.Bound.Missing != "":
		return fmt.Sprintf("not bound: there is a %s now; apply the policy again", h.Selector)
	case h.Bound.Key != now.Key || h.Bound.More != now.More:
		return fmt.Sprintf("not bound: %s is another one than was treated; apply the policy again", h.Selector)
	case h.Shadow:
		return "shadow"
	}
	return "enforced"
}
