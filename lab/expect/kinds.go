// SPDX-License-Identifier: Apache-2.0

package expect

// Statement is what is expected of a figure: the parameters of all kinds, of which one is given. In
// JSON they are on one level; parameters of two kinds need different names.
type Statement struct {
	Bounds
}

// Keys are those of all kinds in a scenario.
type Keys struct {
	boundsKeys
}

func (s Statement) each() []kind { return []kind{s.Bounds} }

func (k *Keys) each() []keysOf { return []keysOf{&k.boundsKeys} }
