/*
 * What a module that is loaded is made of: device code for certain devices (a cubin, an
 * ELF file), PTX that the driver compiles, or a fat binary of several. The driver takes
 * the cubin that runs on the device, and where there is none compiles PTX.
 *
 * The wrapper of a fat binary is in the toolkit's fatbinary_section.h. The layout of
 * what it points to is not documented; it is taken as others have found it (a head of 16
 * bytes, then entries with a kind, a length and an architecture), and believed only
 * where all of it adds up: else the form is unknown.
 *
 * A cubin runs on devices of its major version and a minor one that is not lower (CUDA C++
 * Programming Guide, "Binary Compatibility").
 */
#define _GNU_SOURCE
#include "probe.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WRAPPER_MAGIC = 0x466243b1 };
#define FAT_MAGIC 0xba55ed50u
enum { ENTRY_PTX = 1, ENTRY_CUBIN = 2, ENTRIES = 1 << 14 };

struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *more;
};

struct fat {
	uint32_t magic;
	uint16_t version, head;
	uint64_t size; /* of the entries */
};

struct entry {
	uint16_t kind, version;
	uint32_t head;
	uint64_t size; /* of what follows the head */
	uint32_t compressed, options, minor_major, arch;
};

_Static_assert(sizeof(struct fat) == 16 && sizeof(struct entry) == 32, "as others have found it");

static void fat_of(struct image *to, const unsigned char *at)
{
	struct fat f;
	uint64_t done = 0;

	memcpy(&f, at, sizeof(f));
	if (f.head < sizeof(f) || f.head > 256 || f.size > (uint64_t)1 << 40)
		return;
	for (int n = 0; done < f.size; n++) {
		struct entry e;

		if (n == ENTRIES || f.size - done < sizeof(e))
			return;
		memcpy(&e, at + f.head + done, sizeof(e));
		if (e.head < sizeof(e) || e.head > 4096 || e.size > f.size || e.head + e.size > f.size - done)
			return;
		if (e.kind == ENTRY_PTX && to->ptx < UINT16_MAX) {
			to->ptx++;
		} else if (e.kind == ENTRY_CUBIN && to->cubins < UINT16_MAX) {
			if (to->cubins < sizeof(to->archs) / sizeof(to->archs[0]))
				to->archs[to->cubins] = (uint16_t)e.arch;
			to->cubins++;
		}
		done += e.head + e.size;
	}
	to->form = FORM_FAT;
	to->bytes = f.head + f.size;
}

/* ptx_of tells text from other things by what PTX begins with: comments, spaces, .version. */
static void ptx_of(struct image *to, const char *text, size_t most)
{
	size_t i = 0;

	while (i < most) {
		if (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
			i++;
		} else if (text[i] == '/' && i + 1 < most && text[i + 1] == '/') {
			while (i < most && text[i] != '\n' && text[i] != '\0')
				i++;
		} else if (text[i] == '/' && i + 1 < most && text[i + 1] == '*') {
			for (i += 2; i + 1 < most && text[i] != '\0' && !(text[i] == '*' && text[i + 1] == '/'); i++)
				;
			if (i + 1 >= most || text[i] == '\0')
				return;
			i += 2;
		} else {
			break;
		}
	}
	if (i + 8 > most || strncmp(text + i, ".version", 8) != 0)
		return;
	to->form = FORM_PTX;
	to->ptx = 1;
	to->bytes = strnlen(text, most);
}

/* cubin_of reads the architecture from the lowest byte of the flags, or the second where CUDA 13 has it. */
static void cubin_of(struct image *to, const unsigned char *at)
{
	Elf64_Ehdr h;

	memcpy(&h, at, sizeof(h));
	to->form = FORM_CUBIN;
	to->cubins = 1;
	if (h.e_ident[EI_CLASS] != ELFCLASS64)
		return;
	to->archs[0] = h.e_ident[EI_ABIVERSION] >= 8 ? (h.e_flags >> 8 & 0xff) : (h.e_flags & 0xff);
	to->bytes = h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize;
}

struct image image_of(const void *image)
{
	struct image to;
	uint32_t magic;

	memset(&to, 0, sizeof(to));
	if (image == NULL)
		return to;
	if ((uintptr_t)image % 8 == 0) {
		memcpy(&magic, image, sizeof(magic));
		if (magic == WRAPPER_MAGIC) {
			struct wrapper w;

			memcpy(&w, image, sizeof(w));
			image = w.data;
			if (image == NULL || (uintptr_t)image % 8 != 0)
				return to;
			memcpy(&magic, image, sizeof(magic));
		}
		if (magic == FAT_MAGIC) {
			struct image kept = to;

			fat_of(&to, image);
			return to.form == FORM_FAT ? to : kept;
		}
	}
	if (memcmp(image, ELFMAG, 1) == 0 && memcmp(image, ELFMAG, SELFMAG) == 0) {
		cubin_of(&to, image);
		return to;
	}
	ptx_of(&to, image, (size_t)1 << 30);
	return to;
}

/* image_of_file reads a file after it was loaded, and maps a byte more than it has, so that text ends. */
struct image image_of_file(const char *path)
{
	const int kept = errno;
	struct image to;
	struct stat s;
	unsigned char *at;
	int fd;

	memset(&to, 0, sizeof(to));
	fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && syscall(SYS_fstat, fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
		to.bytes = (uint64_t)s.st_size;
		at = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (at != MAP_FAILED) {
			struct fat f;

			if (s.st_size >= (off_t)sizeof(f) && (memcpy(&f, at, sizeof(f)), f.magic == FAT_MAGIC)) {
				if (f.head + f.size <= (uint64_t)s.st_size)
					fat_of(&to, at);
			} else if (s.st_size >= (off_t)sizeof(Elf64_Ehdr) && memcmp(at, ELFMAG, SELFMAG) == 0) {
				cubin_of(&to, at);
			} else {
				ptx_of(&to, (const char *)at, (size_t)s.st_size);
			}
			munmap(at, (size_t)s.st_size);
			to.bytes = (uint64_t)s.st_size;
		}
	}
	if (fd >= 0)
		close(fd);
	errno = kept;
	return to;
}

uint8_t image_compiles(const struct image *image, uint32_t arch)
{
	const size_t known = sizeof(image->archs) / sizeof(image->archs[0]);

	switch (image->form) {
	case FORM_CUBIN:
		return COMPILES_NOT;
	case FORM_PTX:
		return COMPILES;
	case FORM_FAT:
		break;
	default:
		return COMPILES_UNKNOWN;
	}
	if (image->ptx == 0)
		return COMPILES_NOT;
	if (arch == 0 || image->cubins > known)
		return image->cubins == 0 ? COMPILES : COMPILES_UNKNOWN;
	for (uint16_t i = 0; i < image->cubins; i++)
		if (image->archs[i] / 10 == arch / 10 && image->archs[i] % 10 <= arch % 10)
			return COMPILES_NOT;
	return COMPILES;
}
