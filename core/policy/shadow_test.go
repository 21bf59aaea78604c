// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"weir/core/policy"
)

type shadowed bool

func (shadowed) Summary() string            { return "" }
func (shadowed) InShadow() policy.Treatment { return shadowed(true) }

type plain struct{}

func (plain) Summary() string { return "" }

func TestEverythingThatCanIsPutInShadow(t *testing.T) {
	p := &policy.Policy{Scopes: []policy.Scope{{Name: "a"}}, Host: []policy.Item{{Treatment: shadowed(false)}, {Treatment: plain{}}}}
	p.PutInShadow(false)
	if p.Scopes[0].Shadow || p.Host[0].Treatment != shadowed(false) {
		t.Errorf("nobody asked for it: %+v", p)
	}
	p.PutInShadow(true)
	if !p.Scopes[0].Shadow || p.Host[0].Treatment != shadowed(true) || p.Host[1].Treatment != (plain{}) {
		t.Errorf("in shadow: %+v", p)
	}
}
