/*
 * The C face on a real kernel: what a simulator does not do. Linked to the drop-in library.
 * Prints what the manual pages promise, line by line.
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <stdio.h>
#include <string.h>

static char sent[64 + 4000], got[64 + 4000];

static void address(void *umad, int device)
{
	/* The link-local GID that soft-RoCE makes of 02:00:00:00:00:01 and :02. */
	ib_mad_addr_t addr;
	memset(&addr, 0, sizeof addr);
	memcpy(addr.gid, "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0", 15);
	addr.gid[15] = device + 1;
	addr.hop_limit = 255;
	umad_set_addr(umad, 0, 1, 0, 0x80010000);
	umad_set_grh(umad, &addr);
	umad_set_pkey(umad, 0);
}

int main(void)
{
	printf("size %zu\n", umad_size());
	int a = umad_open_port("rxe0", 1), b = umad_open_port("rxe1", 1);
	printf("open %d %d size %zu\n", a >= 0, b >= 0, umad_size());
	/* No InfiniBand port is there to be the default. ENODEV is 19. */
	printf("default %d\n", umad_open_port(NULL, 0));

	struct umad_reg_attr attr;
	uint32_t id = 99;
	memset(&attr, 0, sizeof attr);
	attr.mgmt_class = 0x03;
	attr.mgmt_class_version = 2;
	attr.flags = 0x80000000;
	int rc = umad_register2(a, &attr, &id);
	printf("flags %d known %u\n", rc, attr.flags);
	attr.flags = UMAD_USER_RMPP;
	attr.rmpp_version = 1;
	rc = umad_register2(a, &attr, &id);
	printf("user rmpp %d id %u\n", rc, id);
	printf("unregister %d\n", umad_unregister(a, id));
	errno = 0;
	rc = umad_unregister(a, id);
	printf("again %d errno %d\n", rc, errno);

	/* Everything is EPERM, the cause is in errno: EPROTONOSUPPORT is 93, EINVAL 22. */
	rc = umad_register(a, 0x81, 1, 0, NULL);
	printf("no QP0 %d errno %d\n", rc, errno);
	long mask[16 / sizeof(long)] = {0};
	mask[0] = 1L << 0x14;
	int server = umad_register(b, 0x03, 2, 1, mask);
	rc = umad_register(b, 0x03, 2, 1, mask);
	printf("server %d, the same again %d errno %d\n", server, rc, errno);
	int client = umad_register(a, 0x03, 2, 1, NULL);
	uint8_t oui[3] = {0, 6, 0x6a};
	printf("client %d oui %d\n", client, umad_register_oui(a, 0x30, 0, oui, NULL));

	/* A long message: GetMulti, RMPP active, 4,000 bytes. */
	unsigned char *mad = umad_get_mad(sent);
	memcpy(mad, "\1\3\2\x14", 4);
	mad[15] = 7;
	mad[26] = 1;
	for (int i = 56; i < 4000 - 64; i++)
		mad[i] = i;
	address(sent, 1);
	printf("send %d\n", umad_send(a, client, sent, 4000 - 64, 5000, 0));
	int length = 256;
	printf("poll %d\n", umad_poll(b, 5000));
	rc = umad_recv(b, got, &length, 5000);
	/* ENOSPC is 28. */
	printf("small %d needs %d\n", rc, length);
	rc = umad_recv(b, got, &length, 5000);
	printf("whole %d length %d status %d pkey %d same %d\n", rc, length, umad_status(got),
	       umad_get_pkey(got),
	       !memcmp(mad + 56, (char *)umad_get_mad(got) + 56, 4000 - 64 - 56));
	printf("grh %d\n", umad_get_mad_addr(got)->grh_present);

	/* Nobody answers: a success with status ETIMEDOUT, 110, and 24 bytes. */
	length = 256;
	rc = umad_recv(a, got, &length, 20000);
	printf("timed out %d status %d length %d\n", rc, umad_status(got), length);
	length = 256;
	rc = umad_recv(a, got, &length, 0);
	printf("nothing %d errno %d\n", rc, errno);
	errno = 0;
	rc = umad_recv(a, got, &length, 30);
	printf("nothing in time %d errno %d\n", rc, errno);

	/* Without a GRH: EIO, with EINVAL in errno. */
	umad_set_grh(sent, NULL);
	rc = umad_send(a, client, sent, 256, 0, 0);
	printf("no grh %d errno %d\n", rc, errno);
	printf("close %d %d\n", umad_close_port(a), umad_close_port(b));
	return 0;
}
