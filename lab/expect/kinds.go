// SPDX-License-Identifier: Apache-2.0

package expect

// Statement is the expectation of a figure: the parameters of all kinds, exactly one of them set.
// JSON has them on one level, so the kinds need distinct names.
type Statement struct {
	Bounds
}

// Keys holds the scenario keys of all kinds.
type Keys struct {
	boundsKeys
}

func (s Statement) each() []kind { return []kind{s.Bounds} }

func (k *Keys) each() []keysOf { return []keysOf{&k.boundsKeys} }
