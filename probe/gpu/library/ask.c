/*
 * ask tells in one line of JSON what the driver says of itself and its devices, without a
 * context being made, and so without memory being taken of a device. It is a program of
 * its own since a static one cannot open the driver's library.
 *
 *   {"library":"","init":0,"driver":12040,"devices":[{"ordinal":0,"name":"...","uuid":"...","major":9,"minor":0,
 *    "multiprocessors":132,"compute_mode":0,"memory":85028765696,"mig":false}]}
 *
 * library is why libcuda.so.1 cannot be opened, empty where it can; init is what cuInit returned.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void text(const char *s)
{
	putchar('"');
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < ' ')
			printf("\\u%04x", (unsigned)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void *library;

static cu_result number(const char *function, int *to)
{
	cu_result (*f)(int *) = (cu_result(*)(int *))dlsym(library, function);

	return f == NULL ? CU_NOT_FOUND : f(to);
}

static void device(int ordinal)
{
	cu_result (*get)(cu_device *, int) = (cu_result(*)(cu_device *, int))dlsym(library, "cuDeviceGet");
	cu_result (*attribute)(int *, int, cu_device) = (cu_result(*)(int *, int, cu_device))dlsym(library, "cuDeviceGetAttribute");
	cu_result (*called)(char *, int, cu_device) = (cu_result(*)(char *, int, cu_device))dlsym(library, "cuDeviceGetName");
	cu_result (*uuid)(unsigned char *, cu_device) = (cu_result(*)(unsigned char *, cu_device))dlsym(library, "cuDeviceGetUuid_v2");
	cu_result (*memory)(size_t *, cu_device) = (cu_result(*)(size_t *, cu_device))dlsym(library, "cuDeviceTotalMem_v2");
	char name[256] = "";
	unsigned char id[16] = { 0 };
	int values[4] = { 0 };
	const int asked[4] = { CU_ATTRIBUTE_MAJOR, CU_ATTRIBUTE_MINOR, CU_ATTRIBUTE_MULTIPROCESSORS, CU_ATTRIBUTE_COMPUTE_MODE };
	size_t bytes = 0;
	cu_device d = 0;

	if (get == NULL || get(&d, ordinal) != CU_SUCCESS)
		return;
	if (called != NULL)
		(void)called(name, sizeof(name) - 1, d);
	for (int i = 0; attribute != NULL && i < 4; i++)
		(void)attribute(&values[i], asked[i], d);
	/* Of an instance of a device that is divided the second version tells the instance's own. */
	if (uuid == NULL)
		uuid = (cu_result(*)(unsigned char *, cu_device))dlsym(library, "cuDeviceGetUuid");
	if (uuid != NULL)
		(void)uuid(id, d);
	if (memory != NULL)
		(void)memory(&bytes, d);
	printf("%s{\"ordinal\":%d,\"name\":", ordinal > 0 ? "," : "", ordinal);
	text(name);
	printf(",\"uuid\":\"");
	for (int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
	printf("\",\"major\":%d,\"minor\":%d,\"multiprocessors\":%d,\"compute_mode\":%d,\"memory\":%zu,\"mig\":%s}", values[0], values[1], values[2], values[3], bytes,
	       strstr(name, " MIG ") != NULL ? "true" : "false");
}

int main(void)
{
	cu_result (*init)(unsigned), r = CU_NOT_FOUND;
	int version = 0, count = 0;

	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	printf("{\"library\":");
	text(library == NULL ? dlerror() : "");
	if (library != NULL) {
		init = (cu_result(*)(unsigned))dlsym(library, "cuInit");
		if (init != NULL)
			r = init(0);
		(void)number("cuDriverGetVersion", &version);
		if (r == CU_SUCCESS)
			(void)number("cuDeviceGetCount", &count);
	}
	printf(",\"init\":%d,\"driver\":%d,\"devices\":[", r, version);
	for (int i = 0; i < count; i++)
		device(i);
	printf("]}\n");
	return 0;
}
