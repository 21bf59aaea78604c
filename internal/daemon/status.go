package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"weir/internal/kernel/sockdiag"
	"weir/limit"
	"weir/policy"
)

// Status is what is in force and what it has done so far.
type Status struct {
	Format      string        `json:"format"`
	Enforced    bool          `json:"enforced"`    // the data plane is attached
	Interrupted bool          `json:"interrupted"` // an apply was cut off; the next apply completes it
	Applied     time.Time     `json:"applied,omitzero"`
	Overflow    uint64        `json:"overflow"` // packets of more scopes than one packet can be charged to
	Scopes      []ScopeStatus `json:"scopes"`
	// Controller is the daemon that follows the policy; absent if there was none since the last release.
	Controller *Controller `json:"controller,omitempty"`
}

// ScopeStatus is one scope's part.
type ScopeStatus struct {
	Scope   policy.Scope    `json:"scope"`
	State   string          `json:"state"` // "enforced", "shadow", "waiting: ...", "not attached" or "not bound: ..."
	Egress  *limit.Counters `json:"egress,omitempty"`
	Ingress *limit.Counters `json:"ingress,omitempty"`
	// Where each direction stands now; absent like its counters where it has no limit.
	EgressNow  *limit.State `json:"egress_now,omitempty"`
	IngressNow *limit.State `json:"ingress_now,omitempty"`
	// Escaped are sockets that the scope's processes use and that it does not reach; only where FindEscapes was called.
	Escaped []sockdiag.Escape `json:"escaped_sockets,omitempty"`
}

const formatStatus = "weir-status/1"

// Status reads what is in force. It changes nothing.
func (e *Engine) Status() (Status, error) {
	status := Status{Format: formatStatus, Scopes: []ScopeStatus{}}
	s := &store{dir: e.StateDir}
	begun, err := s.read(journal)
	if err != nil {
		return status, err
	}
	status.Interrupted = begun != nil
	if status.Controller, err = readController(e.StateDir); err != nil {
		return status, err
	}
	have, err := s.read(current)
	if err != nil || have == nil {
		return status, err
	}
	status.Applied = have.Applied
	if status.Enforced, err = limit.Attached(e.PinDir); err != nil {
		return status, err
	}
	plane, err := limit.LoadPinned(e.PinDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return status, err
	}
	if err == nil {
		defer func() { _ = plane.Close() }()
		if status.Overflow, err = plane.Overflow(); err != nil {
			return status, err
		}
	} else {
		plane = nil
	}
	look := &binder{root: e.CgroupRoot}
	for _, h := range have.Held {
		now, err := look.bind(h.Scope.Applies)
		if err != nil {
			return status, fmt.Errorf("scope %s: %w", h.Scope.Name, err)
		}
		one, err := scopeStatus(plane, h, stateOf(h, now, status.Enforced))
		if err != nil {
			return status, fmt.Errorf("scope %s: %w", h.Scope.Name, err)
		}
		status.Scopes = append(status.Scopes, one)
	}
	return status, nil
}

// stateOf is the state of a scope whose selector stands for now. What the last apply has bound it to may be gone, or another.
func stateOf(h held, now binding, enforced bool) string {
	switch {
	case now.Missing != "":
		return "waiting: " + now.Missing
	case !enforced:
		return "not attached"
	case h.Bound.Missing != "":
		return fmt.Sprintf("not bound: there is a %s now; apply the policy again", h.Scope.Applies)
	case h.Bound != now:
		return fmt.Sprintf("not bound: %s is another one than was limited; apply the policy again", h.Scope.Applies)
	case h.Scope.Shadow:
		return "shadow"
	}
	return "enforced"
}

func scopeStatus(plane *limit.DataPlane, h held, state string) (ScopeStatus, error) {
	one := ScopeStatus{Scope: h.Scope, State: state}
	if plane == nil {
		return one, nil
	}
	for _, direction := range []struct {
		of   limit.Direction
		rate *policy.Rate
		to   **limit.Counters
		now  **limit.State
	}{
		{limit.Egress, h.Scope.Egress, &one.Egress, &one.EgressNow},
		{limit.Ingress, h.Scope.Ingress, &one.Ingress, &one.IngressNow},
	} {
		if direction.rate == nil {
			continue
		}
		counted, err := plane.Counters(h.Index, direction.of)
		if err != nil {
			return one, err
		}
		now, err := plane.State(h.Index, direction.of)
		if err != nil {
			return one, err
		}
		*direction.to, *direction.now = &counted, &now
	}
	return one, nil
}
