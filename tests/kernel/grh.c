/* Preloaded into a program over libibumad on a soft-RoCE port: names an SM that such a port does
 * not have, and puts the GRH that RoCE wants into whatever is sent. Everything else, the RMPP
 * exchange above all, is the program's, the library's and the kernel's own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

/* umad_port_t: ca_name[20], portnum, base_lid, lmc, sm_lid. */
enum { SM_LID = 32 };
/* struct ib_user_mad: the address begins after five 32-bit words. */
enum { LID = 28, GRH_PRESENT = 32, GID_INDEX = 33, HOP_LIMIT = 34, GID = 36 };

int umad_get_port(const char *ca, int number, void *port)
{
	int (*real)(const char *, int, void *) = dlsym(RTLD_NEXT, "umad_get_port");
	int ret = real(ca, number, port);
	unsigned lid = 1;
	if (!ret)
		memcpy((char *)port + SM_LID, &lid, sizeof lid);
	return ret;
}

int umad_send(int fd, int agent, void *umad, int length, int timeout, int retries)
{
	int (*real)(int, int, void *, int, int, int) = dlsym(RTLD_NEXT, "umad_send");
	/* The link-local address of the cable's other end. */
	static const unsigned char gid[16] = {
		0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2
	};
	unsigned char *head = umad;
	memset(head + LID, 0, 2);
	head[GRH_PRESENT] = 1;
	head[GID_INDEX] = 0;
	head[HOP_LIMIT] = 1;
	memcpy(head + GID, gid, sizeof gid);
	return real(fd, agent, umad, length, timeout, retries);
}
