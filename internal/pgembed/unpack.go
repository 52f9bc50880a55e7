package pgembed

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

// unpack unpacks the .txz inside a jar into a new directory.
func unpack(ctx context.Context, jar, tree string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return fmt.Errorf("the build is not a jar: %w", err)
	}
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".txz") {
			continue
		}
		packed, err := f.Open()
		if err != nil {
			return err
		}
		defer packed.Close()
		plain, err := xz.NewReader(bufio.NewReaderSize(packed, 1<<20))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		return untar(ctx, plain, tree)
	}
	return errors.New("the build holds no .txz")
}

// untar writes an archive below tree. Nothing can land outside of it: every
// path goes through os.Root, and a link may not point out.
func untar(ctx context.Context, r io.Reader, tree string) error {
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(r)
	for ctx.Err() == nil {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := writeEntry(root, h, archive); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
	return ctx.Err()
}

// writeEntry writes one entry of the archive.
func writeEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	name := filepath.FromSlash(path.Clean(h.Name))
	if name == "." {
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		mode := fs.FileMode(0o644)
		if h.Mode&0o100 != 0 {
			mode = 0o755
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		if !filepath.IsLocal(filepath.Join(filepath.Dir(name), h.Linkname)) || filepath.IsAbs(h.Linkname) {
			return fmt.Errorf("its link leaves the tree: %s", h.Linkname)
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(filepath.FromSlash(path.Clean(h.Linkname)), name)
	}
	return fmt.Errorf("entry type %q is not expected", h.Typeflag)
}
