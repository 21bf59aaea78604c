// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"embed"
	"io/fs"
)

// prefixed opens the files of the folder modules by their names alone.
type prefixed struct{ embed.FS }

func (p prefixed) Open(name string) (fs.File, error) { return p.FS.Open("modules/" + name) }

func (p prefixed) ReadFile(name string) ([]byte, error) { return p.FS.ReadFile("modules/" + name) }
