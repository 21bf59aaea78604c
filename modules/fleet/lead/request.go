// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"fmt"

	"weir/internal/fault"
	"weir/modules/fleet/leader"
	"weir/modules/fleet/shared"
)

// Operations of a Request.
const (
	OpStatus = "status"
	OpPlan   = "plan"   // the changes that OpApply would make
	OpApply  = "apply"  // replace the shared limits
	OpRemove = "remove" // remove a silent host
)

// Request is a request of an operator.
type Request struct {
	Op     string        `json:"op"`
	Limits shared.Limits `json:"limits,omitempty"`
	Host   string        `json:"host,omitempty"`
}

// Response is the leader's answer.
type Response struct {
	Error   string         `json:"error,omitempty"`
	Try     string         `json:"try,omitempty"`
	Leader  string         `json:"leader"`
	Changes []string       `json:"changes,omitempty"`
	Status  *leader.Status `json:"status,omitempty"`
}

// Err returns the error of a response as a fault.
func (r Response) Err() error {
	if r.Error == "" {
		return nil
	}
	return fault.New(fault.Failed, r.Try, "%s", r.Error)
}

// changes describes the difference between two sets of limits.
func changes(have, want shared.Limits) (all []string) {
	had := map[string]shared.Limit{}
	for _, l := range have {
		had[l.Name] = l
	}
	for _, l := range want {
		before, there := had[l.Name]
		delete(had, l.Name)
		switch {
		case !there:
			all = append(all, fmt.Sprintf("+ %s: %s", l.Name, describe(l)))
		case before != l:
			all = append(all, fmt.Sprintf("~ %s: %s -> %s", l.Name, describe(before), describe(l)))
		}
	}
	for _, l := range have {
		if _, gone := had[l.Name]; gone {
			all = append(all, fmt.Sprintf("- %s: %s", l.Name, describe(l)))
		}
	}
	return all
}

func describe(l shared.Limit) string {
	text := l.Rate.String()
	if l.Parent != "" {
		text += " below " + l.Parent
	}
	if l.Min > 0 {
		text += ", min " + l.Min.String()
	}
	if l.Weight > 1 {
		text += fmt.Sprintf(", weight %d", l.Weight)
	}
	return text
}
