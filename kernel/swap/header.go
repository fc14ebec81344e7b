package swap

import (
	"encoding/binary"
	"fmt"
	"os"
)

// The header of an area, of version 1: union swap_header of include/linux/swap.h. It
// takes the first page; numbers are in the machine's own order, by which the kernel
// reports areas of another one. The UUID and the label are for people: both stay empty.
const (
	headerVersion  = 1024 // offset: 1
	headerLastPage = 1028 // offset: the number of the last page
	headerMagic    = "SWAPSPACE2"
)

// header makes the first page of an area of so many bytes.
func header(size int64, page int) ([]byte, error) {
	pages := size / int64(page)
	if err := checkSize(size, page); err != nil {
		return nil, err
	}
	b := make([]byte, page)
	binary.NativeEndian.PutUint32(b[headerVersion:], 1)
	binary.NativeEndian.PutUint32(b[headerLastPage:], uint32(pages-1))
	copy(b[page-len(headerMagic):], headerMagic)
	return b, nil
}

// fewestPages is the least that makes an area: the header, and one page to swap to.
const fewestPages = 2

// checkSize refuses what is no size of an area: the header counts pages in 32 bits.
func checkSize(size int64, page int) error {
	pages := size / int64(page)
	if size%int64(page) != 0 || pages < fewestPages || pages > 1<<32-1 {
		return fmt.Errorf("a swap area of %d bytes: want a multiple of the page of %d bytes, from %d pages to 2^32-1", size, page, fewestPages)
	}
	return nil
}

// writeHeader writes the header of an area that takes the whole file or device.
func writeHeader(f *os.File, size int64) error {
	b, err := header(size, os.Getpagesize())
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("writing a swap header: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("writing a swap header: %w", err)
	}
	return nil
}
