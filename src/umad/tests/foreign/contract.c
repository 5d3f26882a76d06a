/*
 * Calls what <infiniband/umad.h> declares and prints what comes back. Run on libibumad and on
 * this package's C face, under the same simulator, the output has to be the same.
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <stdio.h>
#include <string.h>

static void show_port(const umad_port_t *p)
{
	printf("port %s/%d lid %u lmc %u sm %u/%u state %u phys %u rate %u cap %08x\n", p->ca_name,
	       p->portnum, p->base_lid, p->lmc, p->sm_lid, p->sm_sl, p->state, p->phys_state,
	       p->rate, be32toh(p->capmask));
	printf("  prefix %016llx guid %016llx layer %s pkeys %u:",
	       (unsigned long long)be64toh(p->gid_prefix),
	       (unsigned long long)be64toh(p->port_guid), p->link_layer, p->pkeys_size);
	for (unsigned i = 0; i < p->pkeys_size; i++)
		printf(" %04x", p->pkeys[i]);
	printf("\n");
}

static void devices(void)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	int n = umad_get_cas_names(names, UMAD_MAX_DEVICES);
	printf("names %d\n", n);
	for (int i = 0; i < n; i++)
		printf("  %s\n", names[i]);
	printf("names, none wanted: %d\n", umad_get_cas_names(names, 0));

	umad_ca_t ca;
	printf("ca %d\n", umad_get_ca(NULL, &ca));
	printf("  %s type %u ports %d fw '%s' type '%s' hw '%s' guid %016llx %016llx\n", ca.ca_name,
	       ca.node_type, ca.numports, ca.fw_ver, ca.ca_type, ca.hw_ver,
	       (unsigned long long)be64toh(ca.node_guid),
	       (unsigned long long)be64toh(ca.system_guid));
	for (int i = 0; i < UMAD_CA_MAX_PORTS; i++)
		if (i <= ca.numports && ca.ports[i])
			show_port(ca.ports[i]);
	printf("release %d\n", umad_release_ca(&ca));
	/* Only the sign is documented. */
	printf("no such ca %d\n", umad_get_ca("nowhere", &ca) < 0);

	umad_port_t port;
	memset(&port, 0, sizeof port);
	printf("port %d\n", umad_get_port("ibsim0", 1, &port));
	show_port(&port);
	int rc = umad_release_port(&port);
	printf("release %d size %u\n", rc, port.pkeys_size);
	printf("default port %d\n", umad_get_port(NULL, 0, &port));
	umad_release_port(&port);
	printf("no such port %d\n", umad_get_port("ibsim0", 9, &port));

	__be64 guids[4];
	n = umad_get_ca_portguids(NULL, guids, 4);
	printf("guids %d null %d\n", n, umad_get_ca_portguids("ibsim0", NULL, 0));
	for (int i = 0; i < n; i++)
		printf("  %016llx\n", (unsigned long long)be64toh(guids[i]));
	printf("guids, short %d\n", umad_get_ca_portguids("ibsim0", guids, 1));

	char path[64] = "";
	rc = umad_get_issm_path("ibsim0", 1, path, sizeof path);
	printf("issm %d %s\n", rc, path);
	rc = umad_get_issm_path("ibsim0", 1, path, 10);
	printf("issm, cut: %d %s\n", rc, path);
	printf("issm, no such port: %d\n", umad_get_issm_path("ibsim0", 9, path, sizeof path));

	struct umad_device_node *list = umad_get_ca_device_list();
	for (struct umad_device_node *d = list; d; d = d->next)
		printf("device %s\n", d->ca_name);
	printf("sort %d %d\n", umad_sort_ca_device_list(&list, 0),
	       umad_sort_ca_device_list(&list, 2));
	umad_free_ca_device_list(list);

	struct umad_device_node c = {NULL, "mlx5_10"}, b = {&c, "mlx4_0"}, a = {&b, "mlx5_1"};
	struct umad_device_node *head = &a;
	printf("sort %d:", umad_sort_ca_device_list(&head, 3));
	for (struct umad_device_node *d = head; d; d = d->next)
		printf(" %s", d->ca_name);
	printf("\nwrong size %d %d\n", umad_sort_ca_device_list(&head, 2),
	       umad_sort_ca_device_list(&head, 4));
}

static void buffers(void)
{
	char *umad = umad_alloc(1, 64 + 256);
	ib_mad_addr_t from;
	memset(&from, 0, sizeof from);
	from.hop_limit = 64;
	from.traffic_class = 5;
	from.flow_label = 0x12345;
	from.gid_index = 7;
	for (int i = 0; i < 16; i++)
		from.gid[i] = i;
	printf("set_addr %d\n", umad_set_addr(umad, 0x1234, 1, 3, 0x80010000));
	printf("set_grh %d\n", umad_set_grh(umad, &from));
	ib_mad_addr_t *addr = umad_get_mad_addr(umad);
	printf("address at %d, mad behind the header: %d\n", (int)((char *)addr - umad),
	       (int)((char *)umad_get_mad(umad) - umad - umad_size()));
	for (int i = 0; i < 56; i++)
		printf("%02x", (unsigned char)umad[i]);
	printf("\n");
	umad_dump(umad);
	umad_addr_dump(addr);
	int rc = umad_set_grh(umad, NULL);
	printf("clear grh %d %d\n", rc, addr->grh_present);
	umad_dump(umad);
	printf("set_addr_net %d\n",
	       umad_set_addr_net(umad, htobe16(0x4321), htobe32(1), 4, htobe32(0x11)));
	printf("%04x %x %x %d\n", be16toh(addr->lid), be32toh(addr->qpn), be32toh(addr->qkey),
	       addr->sl);
	((struct ib_user_mad *)umad)->status = 110;
	printf("status %d\n", umad_status(umad));
	umad_free(umad);
}

static void strings(void)
{
	/* Not where the C library misspells: class 0x21, unknown methods, status codes 4 to 6. */
	for (int c = 0; c < 256; c++)
		if (c != 0x21)
			printf("class %02x %s\n", c, umad_class_str(c));
	static const int classes[] = {1, 3, 4, 7, 0x81};
	static const int methods[] = {1, 2, 3, 5, 6, 7, 0x81, 0x86};
	static const int sa_methods[] = {0x12, 0x92, 0x13, 0x14, 0x94, 0x15, 0x95};
	for (int i = 0; i < 5; i++) {
		for (int m = 0; m < 8; m++)
			printf("method %s\n", umad_method_str(classes[i], methods[m]));
		for (int a = 0; a < 0x100; a++)
			printf("attribute %d %x %s\n", classes[i], a,
			       umad_attribute_str(classes[i], htobe16(a)));
	}
	for (int m = 0; m < 7; m++)
		printf("method %s\n", umad_method_str(3, sa_methods[m]));
	static const int statuses[] = {0, 1, 2, 3, 4, 8, 12, 28, 0x8000};
	for (int s = 0; s < 9; s++)
		printf("status %s\n", umad_common_mad_status_str(htobe16(statuses[s])));
	for (int s = 0; s < 12; s++)
		printf("status %s\n", umad_sa_mad_status_str(htobe16(s << 8)));
}

static void ports(void)
{
	printf("init %d done %d\n", umad_init(), umad_done());
	printf("size before open %d\n", (int)umad_size());
	printf("open nowhere %d\n", umad_open_port("nowhere", 1));
	printf("open port 9 %d\n", umad_open_port("ibsim0", 9));
	int fd = umad_open_port(NULL, 0);
	printf("open %d get_fd %d\n", fd >= 0, umad_get_fd(fd) == fd);
	errno = 0;
	printf("oui of class 4: %d\n", umad_register_oui(fd, 4, 0, (uint8_t[3]){0, 1, 2}, NULL));
	long mask[16 / sizeof(long)] = {0};
	int smi = umad_register(fd, 0x81, 1, 0, mask);
	int pma = umad_register(fd, 4, 1, 0, NULL);
	printf("agents %d %d\n", smi, pma);
	struct umad_reg_attr attr;
	uint32_t id = 77;
	memset(&attr, 0, sizeof attr);
	printf("register2 null %d", umad_register2(fd, NULL, &id));
	printf(" %d", umad_register2(fd, &attr, NULL));
	attr.mgmt_class = 0x30;
	attr.mgmt_class_version = 1;
	printf(" no oui %d", umad_register2(fd, &attr, &id));
	attr.oui = 0x0100066a;
	printf(" wide oui %d", umad_register2(fd, &attr, &id));
	attr.oui = 0x66a;
	int good = umad_register2(fd, &attr, &id);
	printf(" good %d id %u\n", good, id);

	char *umad = umad_alloc(1, 64 + 256);
	int length = 256;
	/* errno is not compared: the simulator does not set it. */
	printf("recv nothing %d\n", umad_recv(fd, umad, &length, 0));
	length = 256;
	errno = 0;
	printf("recv in 20 ms %d", umad_recv(fd, umad, &length, 20));
	printf(" errno %d\n", errno);
	printf("recv null %d %d\n", umad_recv(fd, NULL, &length, 0), umad_recv(fd, umad, NULL, 0));
	printf("poll 20 ms %d\n", umad_poll(fd, 20));

	/* NodeInfo of the local port, by a directed route of no hops. */
	unsigned char *mad = umad_get_mad(umad);
	memset(mad, 0, 256);
	memcpy(mad, "\1\x81\1\1", 4);
	mad[15] = 0x42;
	mad[17] = 0x11;
	memset(mad + 32, 0xff, 4);
	umad_set_addr(umad, 0xffff, 0, 0, 0);
	umad_set_grh(umad, NULL);
	printf("send %d\n", umad_send(fd, smi, umad, 256, 1000, 2));
	printf("poll %d\n", umad_poll(fd, 2000));
	length = 256;
	int agent = umad_recv(fd, umad, &length, 1000);
	printf("recv %d length %d status %d\n", agent == smi, length, umad_status(umad));
	for (int i = 64; i < 104; i++)
		printf("%02x", mad[i]);
	printf("\ndebug %d %d\n", umad_debug(-1), umad_debug(0));
	printf("unregister %d\n", umad_unregister(fd, pma));
	printf("unregister again %d\n", umad_unregister(fd, 31));
	printf("close %d\n", umad_close_port(fd));
	umad_free(umad);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	devices();
	buffers();
	strings();
	ports();
	return 0;
}
